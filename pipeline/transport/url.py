"""Where a broker is, as a URL: ``mqtt://user:password@host:port`` or ``mqtts://...``."""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from pipeline.errors import ConfigError

DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """A broker's address; the password is kept out of every printed form."""

    host: str
    port: int
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = "***@" if self.username is not None else ""
        return f"{'mqtts' if self.tls else 'mqtt'}://{user}{host}:{self.port}"


def masked(url: str) -> str:
    """A URL as it may be shown: whatever stands before the last '@' is hidden."""
    return re.sub(r"^([^/@]*//)?.*@", lambda found: f"{found[1] or ''}***@", url, flags=re.DOTALL)


def parse_broker_url(url: str) -> BrokerUrl:
    """Parse a broker URL. Raises ConfigError, which never shows the password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _wrong(url, "its host or port cannot be read (ports go from 1 to 65535)") from None
    fault = _fault(parts, port)
    if fault:
        raise _wrong(url, fault)
    host = parts.hostname or ""
    return BrokerUrl(
        host,
        DEFAULT_PORTS[parts.scheme] if port is None else port,
        parts.scheme == "mqtts",
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
    )


def _fault(parts: SplitResult, port: int | None) -> str | None:
    if parts.scheme not in DEFAULT_PORTS:
        return "it must begin with mqtt:// or mqtts://"
    if not parts.hostname or re.search(r"\s", parts.netloc):
        return "it names no host"
    if port == 0:
        return "port 0 is not a port"
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        return "nothing may follow the port ('/', '?', '#' and '@' in a password are written %2F, %3F, %23, %40)"
    if parts.password is not None and not parts.username:
        return "it has a password but no user name"
    return None


def _wrong(url: str, fault: str) -> ConfigError:
    return ConfigError(
        f"The broker URL {masked(url)!r} cannot be used: {fault}; write it as mqtt://user:password@host:port."
    )
