"""What can be set about an MQTT session."""

from dataclasses import dataclass, field

from pipeline.transport.url import BrokerUrl


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS with the broker's certificate always verified.

    ``ca_file``: PEM bundle, the system's own when None. ``cert_file`` and ``key_file``: a client certificate.
    ``server_name``: the name that the broker's certificate carries, where it is not the host that is dialled.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """Settings of one session.

    ``client_id``: a unique one is made when None. ``backlog_bytes``: a message is turned away while this much would
    wait on this side of the link. ``packet_bytes``: largest message, both ways. ``ack_timeout_s``: how long to wait
    for the broker's word (connect, subscribe, QoS 1 publish).
    """

    host: str
    port: int = 1883
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: TlsSettings | None = None
    client_id: str | None = None
    keepalive_s: int = 30
    connect_timeout_s: float = 3.0
    ack_timeout_s: float = 5.0
    backlog_bytes: int = 256 * 1024
    packet_bytes: int = 8 * 1024 * 1024 + 64 * 1024

    @classmethod
    def of(cls, url: BrokerUrl, tls: TlsSettings | None = None, client_id: str | None = None) -> "MqttSettings":
        """Settings for the broker at a URL; ``mqtts`` brings TLS with the system's authorities unless told more."""
        return cls(
            host=url.host,
            port=url.port,
            username=url.username,
            password=url.password,
            tls=(tls or TlsSettings()) if url.tls else None,
            client_id=client_id,
        )
