"""What a source string names, and how to show it without its secrets."""

import base64
import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, quote_plus, unquote, urlsplit, urlunsplit

from edge_agent.capture.settings import CaptureSettings
from pipeline.errors import ConfigError

URL_SCHEMES = ("rtsp", "rtsps", "http", "https")
DEFAULT_PORTS = {"rtsp": 554, "rtsps": 322, "http": 80, "https": 443}

MASK = "***"
_LEAST_SECRET_CHARACTERS = 3  # shorter ones would blot out half of every sentence; the URL rules still catch them
_USER_INFO = re.compile(r"(?<=://)[^\s'\"]*@")
_PARAMETERS = r"user(?:name)?|usr|u|login|p|pass(?:w(?:or)?d)?|pwd|auth|token|access_token|key|api_?key|secret|session"
_SECRET_PARAMETER = re.compile(rf"([?&;](?:{_PARAMETERS})=)[^&;#\s'\"]*", re.IGNORECASE)


class SourceKind(StrEnum):
    """The kinds of source that can be told apart by their name alone."""

    URL = "url"
    DEVICE = "device"
    PATH = "path"
    SYNTHETIC = "synthetic"


@dataclass(frozen=True, slots=True)
class Address:
    """A source's kind and what is to be opened: the URL, the device's path or number, the path, the scene."""

    kind: SourceKind
    target: str


def parse_address(source: str) -> Address:
    """Tell what a source string names. Raises ConfigError on an unknown scheme or a malformed URL."""
    if not source.strip() or "\0" in source:
        raise ConfigError("The source is empty; name an RTSP or HTTP URL, a file, a folder, a device or synthetic:.")
    scheme, colon, rest = source.partition(":")
    scheme = scheme.lower()
    if colon and rest.startswith("//"):
        if scheme not in URL_SCHEMES:
            known = ", ".join(f"{name}://" for name in URL_SCHEMES)
            raise ConfigError(f"The source {mask_url(source)} has the unknown scheme {scheme}; use one of {known}.")
        return Address(SourceKind.URL, _checked_url(source))
    if colon and scheme == "synthetic":
        return Address(SourceKind.SYNTHETIC, rest)
    if colon and scheme == "device":
        if not (rest.isascii() and rest.isdigit()):
            raise ConfigError(f"The source {source} names no device number; write for example device:0.")
        return Address(SourceKind.DEVICE, rest)
    if source.startswith("/dev/"):
        return Address(SourceKind.DEVICE, source)
    return Address(SourceKind.PATH, source)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"The source {mask_url(url)} is not a valid URL; check host and port.") from error
    if not host:
        raise ConfigError(f"The source {mask_url(url)} names no host; write for example rtsp://camera.local/stream.")
    return url


def device_path(target: str) -> str:
    """The path of a device that is named by path or number."""
    return f"/dev/video{target}" if target.isdigit() else target


def host_and_port(url: str) -> tuple[str, int]:
    """The TCP end point that a URL leads to."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme.lower(), 80)


def with_credentials(url: str, username: str | None, password: str | None) -> str:
    """The URL with user and password percent-encoded in it; those given here replace those it has."""
    if username is None and password is None:
        return url
    parts = urlsplit(url)
    user = quote(username, safe="") if username is not None else (parts.username or "")
    word = quote(password, safe="") if password is not None else (parts.password or "")
    address = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{word}@{address}"))


def credentials(url: str) -> tuple[str, str, str]:
    """Split a URL into the bare URL, its user and its password, both decoded ("" where absent)."""
    parts = urlsplit(url)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare, unquote(parts.username or ""), unquote(parts.password or "")


def mask_url(text: str) -> str:
    """Replace user, password and secret query parameters of every URL in ``text``; rather too much than too little."""
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", _USER_INFO.sub(f"{MASK}@", text))


class Redactor:
    """Removes one source's secrets from texts: raw, percent-encoded, and as an Authorization header has them."""

    def __init__(self, settings: CaptureSettings) -> None:
        users, words = [settings.username], [settings.password]
        user_info = _USER_INFO.search(settings.source)
        if user_info:
            user, _, word = user_info.group()[:-1].partition(":")
            users.append(user)
            words.append(word)
        plain = {unquote(secret) for secret in users + words if secret} | {s for s in users + words if s}
        pairs = {f"{unquote(u)}:{unquote(w)}" for u in users if u for w in words if w}
        forms = {base64.b64encode(pair.encode()).decode() for pair in pairs}
        for secret in plain:
            forms |= {secret, quote(secret, safe=""), quote(secret), quote_plus(secret)}
            forms |= {form.lower() for form in (quote(secret, safe=""), quote(secret))}
            forms.add(repr(secret)[1:-1])
        # Longest first, so that no form is broken up by a shorter one within it.
        self._forms = sorted((f for f in forms if len(f) >= _LEAST_SECRET_CHARACTERS), key=len, reverse=True)

    def clean(self, text: str) -> str:
        """``text`` without the secrets."""
        text = mask_url(text)
        for form in self._forms:
            text = text.replace(form, MASK)
        return text
