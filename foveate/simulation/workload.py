"""What one camera's frames asked of the system in a recording, in a form that the simulator can replay."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from pipeline.errors import ConfigError
from pipeline.policies.offload import Candidate, Why


class Shot(msgspec.Struct, frozen=True):
    """One picture for the larger model: its size, and what drawing, decoding and looking at it took.

    ``shown_px`` are the pixels of the frame that it shows, in ``crops`` regions.
    """

    size_bytes: int
    width_px: int
    height_px: int
    shown_px: float
    crops: int
    encode_ms: float
    decode_ms: float
    infer_ms: float


class Place(msgspec.Struct, frozen=True):
    """A place of a frame: ``box`` is ``xyxy`` in frame pixels; ``due``: a second look is allowed by the rules."""

    box: tuple[float, float, float, float]
    why: Why
    gain: float
    score: float
    due: bool

    def candidate(self) -> Candidate:
        """The place as the offload policies know it."""
        return Candidate(self.box, self.why, self.gain, self.score)


class RecordedFrame(msgspec.Struct, frozen=True):
    """A frame that the gate kept, at ``at_s`` seconds from the beginning.

    ``mosaic`` is the picture of its due places, of all where none is due, None where there is none; ``whole`` that of
    the whole frame. ``sent`` is that of the places ``asked`` about in the recording, by their numbers, where those were
    others. ``least_score`` is that of the boxes that are published anyway.
    """

    seq: int
    at_s: float
    gate_ms: float
    edge_ms: float
    places: tuple[Place, ...]
    least_score: float | None
    mosaic: Shot | None
    whole: Shot
    asked: tuple[int, ...] = ()
    sent: Shot | None = None


class Workload(msgspec.Struct, frozen=True):
    """The frames that the gate kept, in order, out of ``captured`` of which ``sampled`` were due.

    ``sample_fps`` is the most that are due per second; ``duration_s`` is how long it is, and so when it begins again.
    """

    name: str
    duration_s: float
    sample_fps: float
    frame_width_px: int
    frame_height_px: int
    captured: int
    sampled: int
    frames: tuple[RecordedFrame, ...]
    version: Literal[1] = 1

    @property
    def kept_fps(self) -> float:
        """Frames per second that reach the small model."""
        return len(self.frames) / self.duration_s


def paced(workload: Workload, sample_fps: float) -> Workload:
    """The workload with its time stretched, so that frames are due ``sample_fps`` times per second.

    What the gate keeps and what a frame costs stay as recorded; only the pace changes.
    """
    stretch = workload.sample_fps / sample_fps
    frames = tuple(msgspec.structs.replace(f, at_s=f.at_s * stretch) for f in workload.frames)
    return msgspec.structs.replace(
        workload, duration_s=workload.duration_s * stretch, sample_fps=sample_fps, frames=frames
    )


def with_times(workload: Workload, edge_ms: float | None, cloud_ms: float | None) -> Workload:
    """The workload on other machines: times scaled so that the small and the larger model take so long on average.

    ``cloud_ms`` is that of a mosaic; a whole frame keeps its ratio to it. None leaves the times as they are.
    """
    edge = 1.0 if edge_ms is None else edge_ms / mean([f.edge_ms for f in workload.frames])
    looks_ms = [f.mosaic.infer_ms for f in workload.frames if f.mosaic] or [f.whole.infer_ms for f in workload.frames]
    cloud = 1.0 if cloud_ms is None else cloud_ms / mean(looks_ms)

    def scaled(shot: Shot) -> Shot:
        return msgspec.structs.replace(shot, infer_ms=shot.infer_ms * cloud)

    frames = tuple(
        msgspec.structs.replace(
            f, edge_ms=f.edge_ms * edge, mosaic=f.mosaic and scaled(f.mosaic), whole=scaled(f.whole)
        )
        for f in workload.frames
    )
    return msgspec.structs.replace(workload, frames=frames)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def save(workload: Workload, path: Path) -> None:
    """Write a workload as JSON. Raises ConfigError where the file cannot be written."""
    try:
        path.write_bytes(msgspec.json.encode(workload) + b"\n")
    except OSError as error:
        raise ConfigError(f"the workload {path} cannot be written: {error.strerror}; name another file.") from error


def load(path: Path) -> Workload:
    """Read a workload. Raises ConfigError where it is none, or has no frame."""
    try:
        workload = msgspec.json.decode(path.read_bytes(), type=Workload)
    except OSError as error:
        raise ConfigError(f"the workload {path} cannot be read: {error.strerror}; check the path.") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{path} is no workload ({error}): name a file that foveate simulate record wrote."
        ) from error
    if not workload.frames or workload.duration_s <= 0:
        raise ConfigError(f"the workload {path} has no frame that was analysed: record a longer scene.")
    return workload
