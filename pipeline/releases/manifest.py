"""What a release says of itself: the values that are signed, and what in them is refused."""

import hashlib
from datetime import datetime
from pathlib import PurePath
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from pipeline.detectors.contract import HeightWidth, ModelEntry
from pipeline.timing import rfc3339
from pipeline.wire.topics import level_fault

Kind = Literal["camera", "general"]
"""``camera``: a camera's own model. ``general``: the model that stands behind it and serves cameras without one."""

CHUNK_BYTES = 32 * 1024
"""A chunk holds up an answer on the same link by at most 26 ms at 10 Mbit/s."""
MOST_CHUNK_BYTES = 256 * 1024
MOST_MANIFEST_BYTES = 128 * 1024
MOST_SIDE_PX = 4096
MOST_LABELS, MOST_LABEL_CHARS, MOST_URLS, MOST_TEXT_CHARS = 10_000, 200, 8, 1000
_SHA256_CHARS = frozenset("0123456789abcdef")


class Audience(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom a release is for. A field that is empty leaves nobody out; one that is not asks to be met."""

    cameras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    site: str = ""

    def holds(self, camera: str, group: str, site: str) -> bool:
        """Whether a camera belongs to it."""
        return (
            (not self.cameras or camera in self.cameras)
            and (not self.groups or group in self.groups)
            and (not self.site or site == self.site)
        )


EVERYBODY = Audience()


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One release of a model.

    ``sequence`` rises with every manifest of a name: what is lower than one that was seen is a replay. To go back to
    an older model is a new manifest, with a new sequence, for the old file. ``entry`` is the contract; ``entry.sha256``
    names the file, of ``size_bytes``, which is found at ``urls`` and in ``chunks`` of ``chunk_bytes`` at the broker.
    ``parent`` is the model (name@version) that it was made from, ``data_from`` and ``data_to`` when its lessons were
    taken (RFC 3339, empty for unknown), ``teacher`` who labelled them. ``revoked`` says why the release is taken
    back, and is empty where it is not.
    """

    schema: Literal[1] = 1
    sequence: int
    kind: Kind
    audience: Audience = EVERYBODY
    entry: ModelEntry
    labels: tuple[str, ...]
    input_size: HeightWidth
    size_bytes: int
    chunk_bytes: int = CHUNK_BYTES
    urls: tuple[str, ...] = ()
    parent: str = ""
    data_from: str = ""
    data_to: str = ""
    teacher: str = ""
    figures: dict[str, float] = {}
    created_at: str
    revoked: str = ""

    @property
    def name(self) -> str:
        """The model's name, a topic level."""
        return self.entry.name

    @property
    def version(self) -> str:
        return self.entry.version

    @property
    def title(self) -> str:
        """The model as name@version."""
        return f"{self.entry.name}@{self.entry.version}"

    @property
    def chunks(self) -> int:
        """In how many chunks the file comes."""
        return -(-self.size_bytes // self.chunk_bytes)

    def encode(self) -> bytes:
        """The bytes that are signed: JSON with sorted keys and no white space, the same for the same values."""
        return msgspec.json.encode(self, order="sorted")


def decode_manifest(data: bytes) -> Manifest:
    """The manifest in signed bytes. Raises ValueError that says what is wrong with it."""
    if len(data) > MOST_MANIFEST_BYTES:
        raise ValueError(f"its manifest has {len(data)} bytes, and {MOST_MANIFEST_BYTES} are allowed")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"its manifest cannot be read ({error})") from error
    if fault := manifest_fault(manifest):
        raise ValueError(fault)
    return manifest


def manifest_fault(manifest: Manifest) -> str:
    """What in a manifest cannot be used; empty where nothing is wrong."""
    entry = manifest.entry
    if fault := level_fault(entry.name):
        return f"its name {entry.name[:80]!r} cannot be part of a topic: {fault}"
    if not entry.version or len(entry.version) > 64 or not entry.version.isprintable():
        return f"its version {entry.version[:80]!r} is not 1 to 64 printable characters"
    if len(entry.sha256) != 64 or not _SHA256_CHARS.issuperset(entry.sha256):
        return f"its hash {entry.sha256[:80]!r} is not a SHA-256 in lower case"
    for file in (entry.file, entry.labels or entry.file):
        if file in {"", ".", ".."} or PurePath(file).name != file or "\\" in file or "\0" in file:
            return f"its file name {file[:80]!r} is not a name alone"
    return _number_fault(manifest) or _text_fault(manifest)


def _number_fault(manifest: Manifest) -> str:
    if manifest.sequence < 1:
        return f"its sequence {manifest.sequence} is not at least 1"
    if manifest.size_bytes < 1:
        return f"its size of {manifest.size_bytes} bytes is not at least 1"
    if not 1024 <= manifest.chunk_bytes <= MOST_CHUNK_BYTES:
        return f"its chunks of {manifest.chunk_bytes} bytes are not 1024 to {MOST_CHUNK_BYTES}"
    if not 1 <= min(manifest.input_size) <= max(manifest.input_size) <= MOST_SIDE_PX:
        return f"its input size {manifest.input_size} is not of 1 to {MOST_SIDE_PX} px"
    return ""


def _text_fault(manifest: Manifest) -> str:
    labels = manifest.labels
    if len(labels) != manifest.entry.output.classes or len(labels) > MOST_LABELS or len(set(labels)) != len(labels):
        return f"its {len(labels)} labels are not one for each of its {manifest.entry.output.classes} classes"
    if not all(label.strip() and label.isprintable() and len(label) <= MOST_LABEL_CHARS for label in labels):
        return f"a label is empty, not printable, or has more than {MOST_LABEL_CHARS} characters"
    if len(manifest.urls) > MOST_URLS or not all(_is_http(url) for url in manifest.urls):
        return f"its urls are not at most {MOST_URLS} of http or https"
    if len(manifest.revoked) > MOST_TEXT_CHARS:
        return f"the reason for its end has more than {MOST_TEXT_CHARS} characters"
    return ""


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and len(url) <= MOST_TEXT_CHARS


def next_sequence(now: datetime, last: int = 0) -> int:
    """A sequence for a release made now: milliseconds since 1970, and above the last one whatever the clock says."""
    return max(int(now.timestamp() * 1000), last + 1)


def manifest_for(  # noqa: PLR0913 - what a release is made of; by name
    entry: ModelEntry,
    file: bytes,
    *,
    kind: Kind,
    labels: tuple[str, ...],
    input_size: HeightWidth,
    now: datetime,
    last_sequence: int = 0,
    audience: Audience = EVERYBODY,
    urls: tuple[str, ...] = (),
    parent: str = "",
    data_span: tuple[datetime, datetime] | None = None,
    teacher: str = "",
    figures: dict[str, float] | None = None,
) -> Manifest:
    """The manifest of a model that is released now; its hash and size are the file's.

    Raises ValueError where an edge would refuse it.
    """
    span = ("", "") if data_span is None else (rfc3339(data_span[0]), rfc3339(data_span[1]))
    made = Manifest(
        sequence=next_sequence(now, last_sequence),
        kind=kind,
        audience=audience,
        entry=msgspec.structs.replace(entry, sha256=hashlib.sha256(file).hexdigest()),
        labels=labels,
        input_size=input_size,
        size_bytes=len(file),
        urls=urls,
        parent=parent,
        data_from=span[0],
        data_to=span[1],
        teacher=teacher,
        figures=dict(figures or {}),
        created_at=rfc3339(now),
    )
    if fault := manifest_fault(made):
        raise ValueError(f"the release of {made.title} cannot be made: {fault}")
    return made


def revocation(manifest: Manifest, reason: str, now: datetime) -> Manifest:
    """The manifest that takes a release back."""
    return msgspec.structs.replace(
        manifest, sequence=next_sequence(now, manifest.sequence), revoked=reason, created_at=rfc3339(now)
    )
