"""What a camera delivers: frames, changes of state, an end. All of them are values."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from pipeline.frames import Image
from pipeline.results import CameraState


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """One picture. ``seq`` counts every picture the source gave, so a gap tells how many were overwritten.

    ``image`` is (height, width, 3) uint8 BGR, upright, read-only and owned by the receiver. ``captured_at_s`` is
    monotonic, taken when the read returned. ``lost_before`` pictures were overwritten by newer ones, and
    ``unusable_before`` could not be used, since the last picture handed over.
    """

    image: Image
    seq: int
    captured_at_s: float
    media_ms: float | None
    lost_before: int = 0
    unusable_before: int = 0


@dataclass(frozen=True, slots=True)
class StateChange:
    """The camera went into another state; ``reason`` is one sentence for people."""

    state: CameraState
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The source gives nothing more: ``finished``, or a fault that trying again will not mend.

    ``lost_before`` and ``unusable_before`` are those since the last picture handed over.
    """

    state: CameraState
    reason: str
    lost_before: int = 0
    unusable_before: int = 0


CaptureEvent = Captured | StateChange | Ended


class VideoSource(Protocol):
    """One camera, file, folder or scene.

    ``events`` may be iterated once. It pulls: the next picture is asked for when the consumer comes back, and a live
    source then hands over its newest. A live source that drops comes back by itself and never ends; a file ends.
    ``close`` returns in under a second, also when a read hangs, and may be called at any time.
    """

    @property
    def live(self) -> bool:
        """Newest wins, and time is real; otherwise every picture is delivered, as fast as it is taken."""
        ...

    @property
    def stills(self) -> bool:
        """Pictures that have nothing to do with each other in time: a folder that is not played in real time."""
        ...

    @property
    def total_frames(self) -> int | None:
        """The number of pictures that the source says it has; a hint for a progress bar, None if unknown."""
        ...

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The processes that work for this source right now."""
        ...

    def events(self) -> AsyncIterator[CaptureEvent]: ...

    async def close(self) -> None: ...
