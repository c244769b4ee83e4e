"""Camera names made from sources: valid topic levels, one for each."""

import re
from collections.abc import Collection
from pathlib import PurePath
from urllib.parse import urlsplit

from edge_agent.capture.address import SourceKind, parse_address
from pipeline.errors import ConfigError
from pipeline.wire.topics import as_level, camera_fault

_FALLBACK = "camera"
_MOST_BYTES = 40


def camera_name(source: str, taken: Collection[str]) -> str:
    """A free name for a source: a URL's host (never its user), a file's stem, ``device-0``."""
    # Spaces and the like are legal in topics, and a nuisance there and in the page's addresses.
    stem = re.sub(r"[\s\"'<>?&%\\]+", "-", _stem(source)).strip("-.")
    # Cut in bytes, as the limit of a topic level is, and short enough for what is added below.
    name = as_level(stem).encode()[:_MOST_BYTES].decode(errors="ignore") if stem else _FALLBACK
    if camera_fault(name):
        name = f"{_FALLBACK}-{name}"
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique


def _stem(source: str) -> str:
    try:
        address = parse_address(source)
        if address.kind is SourceKind.URL:
            return urlsplit(address.target).hostname or ""
    except (ConfigError, ValueError):
        return ""  # the source itself is refused, in a sentence of its own
    if address.kind is SourceKind.SYNTHETIC:
        return "synthetic"
    if address.kind is SourceKind.DEVICE and address.target.isdigit():
        return f"device-{address.target}"
    return PurePath(address.target).stem
