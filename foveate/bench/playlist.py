"""The clips of the protocol, and playlists made of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from foveate.bench.clip import video_bytes_per_frame
from foveate.bench.reference import frames
from foveate.bench.report import ROOT
from pipeline.errors import SourceError
from pipeline.frames import Image

SHARED = ROOT.parent / "shared"


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip. ``label`` is what it shows; ``truth`` its true boxes in MOT format, None where there are none.

    ``fps`` is that of its header. ``h264_bytes_per_frame`` is its size as H.264, None where the file itself is H.264.
    """

    name: str
    path: Path
    label: str
    fps: float
    truth: Path | None = None
    h264_bytes_per_frame: float | None = None

    def require(self) -> "Clip":
        """The clip itself. Raises SourceError where a file of it is absent."""
        for file in (self.path, self.truth):
            if file is not None and not file.is_file():
                raise SourceError(f"The benchmark needs {file.name} in {file.parent}: put it there.")
        return self

    def h264_bytes(self, frames: int) -> float:
        """What so many of its frames take as H.264."""
        return frames * (self.h264_bytes_per_frame or video_bytes_per_frame(self.path))


VTEST = Clip(
    "vtest", SHARED / "clips/vtest.avi", "person", 10.0, SHARED / "gt/pets09-s2l1.txt", h264_bytes_per_frame=9_500.0
)
"""PETS 2009 S2.L1, view 1: busy. As H.264: x264, preset veryfast, crf 23."""
ONE_BY_ONE = Clip("one-by-one", SHARED / "clips/one-by-one-person-detection.mp4", "person", 10.0)
"""An indoor corner, mostly empty."""
BOTTLE = Clip("bottle", SHARED / "clips/bottle-detection.mp4", "bottle", 30.0)
"""Bottles put down and taken away."""


@dataclass(frozen=True, slots=True)
class Part:
    """So many frames of a clip from frame ``first`` on; None: to its end."""

    clip: Clip
    frames: int | None = None
    first: int = 0


@dataclass(frozen=True, slots=True)
class Playlist:
    """Clips one after another, as one camera shows them."""

    name: str
    parts: tuple[Part, ...]

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(part.clip.label for part in self.parts)


MIX = Playlist("mix", (Part(ONE_BY_ONE, 600), Part(VTEST), Part(BOTTLE)))
MIX_SHORT = Playlist("mix-short", (Part(ONE_BY_ONE, 200, 200), Part(VTEST, 300, 200), Part(BOTTLE, 300)))
ONLY_VTEST = Playlist("vtest", (Part(VTEST),))


def shown(playlist: Playlist) -> Iterator[tuple[float, Image]]:
    """The frames of a playlist with their moments in seconds from its start."""
    start_s = 0.0
    for part in playlist.parts:
        count = 0
        for number, image in enumerate(frames(part.clip.path)):
            if number < part.first:
                continue
            if part.frames is not None and count >= part.frames:
                break
            yield start_s + count / part.clip.fps, image
            count += 1
        start_s += count / part.clip.fps
