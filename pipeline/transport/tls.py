"""TLS for MQTT: the broker's certificate is always verified, against a name that may be set."""

import ssl
from typing import Any

from pipeline.errors import ConfigError
from pipeline.transport.settings import MqttSettings, TlsSettings


def tls_context(tls: TlsSettings, host: str) -> ssl.SSLContext:
    """Read the TLS files; blocks on the disk. Raises ConfigError."""
    try:
        context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
        context.server_name = tls.server_name or host
        if tls.ca_file is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(tls.ca_file)
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"The TLS files of the broker {host} cannot be used (ca {tls.ca_file}, cert {tls.cert_file}, "
            f"key {tls.key_file}): {error}; name readable PEM files."
        ) from error
    return context


class _NamedContext(ssl.SSLContext):
    """A context that expects a given name in the certificate, whatever host is dialled."""

    server_name: str

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        return super().wrap_socket(*args, **{**kwargs, "server_hostname": self.server_name})


def tls_reason(error: ssl.SSLError, settings: MqttSettings) -> str:
    """Say what is wrong with a broker's certificate, and what to do."""
    expected = settings.tls.server_name if settings.tls and settings.tls.server_name else settings.host
    detail = getattr(error, "verify_message", "") or error.reason or str(error)
    return (
        f"tls_error: the certificate of {settings.host}:{settings.port} was not accepted for {expected!r} ({detail});"
        " set server_name to a name in the certificate, or ca_file to the authority that signed it"
    )
