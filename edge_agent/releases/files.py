"""The folder of released models: files by their hash, the signed releases, and what each camera uses. All of it blocks.

``files/{sha256}.onnx``, ``releases/{digest}.json``, ``cameras/{camera}.json``, ``seen.json``. Names are hashes, or a
camera's that the configuration has checked: no release can choose where something is written.
"""

import contextlib
import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from edge_agent.releases.disk import NEW, PART, Disk
from edge_agent.releases.slot import ModelSlot
from pipeline.releases.manifest import Manifest
from pipeline.releases.signing import MOST_ENVELOPE_BYTES, Release

MOST_STATE_BYTES = 64 * 1024
MOST_SEEN_BYTES = 1024 * 1024
T = TypeVar("T")


class SlotState(msgspec.Struct, frozen=True, kw_only=True):
    """What a camera uses, as digests of releases; empty for the model that the agent is started with, or for none."""

    version: Literal[1] = 1
    general: str = ""
    current: str = ""
    previous: str = ""
    candidate: str = ""
    taken_back: tuple[str, ...] = ()

    @classmethod
    def of(cls, slot: ModelSlot) -> "SlotState":
        return cls(
            general=slot.general.release,
            current=slot.current.release,
            previous=slot.previous.release if slot.previous is not None else "",
            candidate=slot.candidate.release if slot.candidate is not None else "",
            taken_back=slot.taken_back,
        )

    @property
    def releases(self) -> frozenset[str]:
        """The digests of all that is in use or kept ready."""
        return frozenset({self.general, self.current, self.previous, self.candidate}) - {""}


class Seen(msgspec.Struct, frozen=True):
    """The newest release of a name that was heard of, whatever became of it."""

    sequence: int
    digest: str


class _Kept(msgspec.Struct, frozen=True):
    """The part of a signed release that names its file."""

    manifest: Manifest


class ModelFolder:
    """What of released models is on the disk, below ``folder``."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self.folder = folder
        self._disk = disk or Disk()

    def model_path(self, manifest: Manifest) -> Path:
        """Where the release's file is, or is to be."""
        return self.folder / "files" / f"{manifest.entry.sha256}.onnx"

    def part_path(self, manifest: Manifest) -> Path:
        """Where a file is gathered that comes in pieces; what is there is continued."""
        path = self.model_path(manifest)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.with_name(path.name + PART)

    def has_model(self, manifest: Manifest) -> bool:
        """Whether the file is there and is the one; one that is not goes."""
        path = self.model_path(manifest)
        try:
            if path.stat().st_size == manifest.size_bytes and _sha256(path) == manifest.entry.sha256:
                return True
            path.unlink()
        except OSError:
            pass  # none there, or none that can be used
        return False

    def keep_model(self, manifest: Manifest, data: bytes) -> None:
        """Keep a file whose hash was found right. Raises OSError."""
        self._disk.write_whole(self.model_path(manifest), data)
        with contextlib.suppress(OSError):
            self.part_path(manifest).unlink(missing_ok=True)

    def keep_release(self, release: Release) -> None:
        """Keep a signed release, so that it can be verified again. Raises OSError."""
        self._disk.write_whole(self._release_path(release.digest), release.envelope)

    def release(self, digest: str) -> bytes | None:
        """The signed message of a release; None where it is not there."""
        return _read(self._release_path(digest), MOST_ENVELOPE_BYTES)

    def write_state(self, camera: str, state: SlotState) -> None:
        """Note what a camera uses. Raises OSError."""
        self._disk.write_whole(self._state_path(camera), msgspec.json.encode(state))

    def state(self, camera: str) -> SlotState | str:
        """What a camera used last, or why that is not known; nothing at all where there is no file."""
        path = self._state_path(camera)
        return _decoded(path, _read(path, MOST_STATE_BYTES), SlotState) if path.exists() else SlotState()

    def write_seen(self, seen: dict[str, Seen]) -> None:
        """Note the newest release of each name. Raises OSError."""
        self._disk.write_whole(self.folder / "seen.json", msgspec.json.encode(seen))

    def seen(self) -> dict[str, Seen] | str:
        """The newest release of each name that was heard of, or why that is not known."""
        path = self.folder / "seen.json"
        return _decoded(path, _read(path, MOST_SEEN_BYTES), dict[str, Seen]) if path.exists() else {}

    def clean(self, digests: Collection[str]) -> None:
        """Remove all but these releases and their files, and what a power cut has left half written."""
        keep = {f"{digest}.json" for digest in digests}
        for digest in digests:
            if sha256 := _file_of(self.release(digest)):
                keep |= {f"{sha256}.onnx", f"{sha256}.onnx{PART}"}
        for part in ("releases", "files", "cameras", "."):
            with contextlib.suppress(OSError):
                for path in (self.folder / part).iterdir():
                    stray = path.name not in keep if part in {"releases", "files"} else path.name.endswith(NEW)
                    if stray and path.is_file():
                        path.unlink()

    def _release_path(self, digest: str) -> Path:
        return self.folder / "releases" / f"{digest}.json"

    def _state_path(self, camera: str) -> Path:
        return self.folder / "cameras" / f"{camera}.json"


def _decoded(path: Path, data: bytes | None, kind: type[T]) -> T | str:
    if data is None:
        return f"{path} cannot be read, or is too large"
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"{path} is not usable ({error})"


def _read(path: Path, most_bytes: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError:
        return None
    return data if len(data) <= most_bytes else None


def _file_of(envelope: bytes | None) -> str:
    """The hash of the file of a release that was verified when it was kept; empty where it is damaged."""
    try:
        return msgspec.json.decode(envelope or b"", type=_Kept).manifest.entry.sha256
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
