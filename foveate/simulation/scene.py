"""A recorded workload as it is replayed, and the frames of simulated cameras."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from foveate.simulation.workload import RecordedFrame, Shot, Workload
from pipeline.policies.offload import OVERHEAD_BYTES, Candidate, OffloadDecision
from pipeline.policies.sampler import Sampler
from pipeline.results import Origin

_MARGIN_PX = 16.0
"""The least padding of a place, on both sides together."""


@dataclass(frozen=True, slots=True, eq=False)
class SceneFrame:
    """A recorded frame with its places as the policies take them: those that are due, and all."""

    frame: RecordedFrame
    due: tuple[Candidate, ...]
    all: tuple[Candidate, ...]

    @classmethod
    def of(cls, frame: RecordedFrame) -> "SceneFrame":
        places = [(place.candidate(), place.due) for place in frame.places]
        return cls(frame, tuple(c for c, due in places if due), tuple(c for c, _ in places))

    def shot(self, decision: OffloadDecision) -> Shot:
        """The picture that a decision sends. The mosaic of other places than the due ones was not recorded: its bytes,
        pixels and times are those of the recorded one in proportion to the area of the places.
        """
        recorded, shown = self.frame.mosaic, self.due or self.all
        if decision.kind == "frame" or recorded is None:
            return self.frame.whole
        if decision.places == shown:
            return recorded
        return _part_of(recorded, _area_px(decision.places) / _area_px(shown))


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A workload made ready for replay."""

    workload: Workload
    frames: tuple[SceneFrame, ...]

    @classmethod
    def of(cls, workload: Workload, sampler: Sampler | None = None) -> "Scene":
        """A scene; with a ``sampler`` only the frames that it takes. Its choice depends on nothing but their times, so
        it is made once and holds for every camera that replays the scene.
        """
        frames = (f for f in workload.frames if sampler is None or sampler.take(f.at_s).due)
        return cls(workload, tuple(SceneFrame.of(frame) for frame in frames))


@dataclass(slots=True, eq=False)
class Look:
    """A frame of a simulated camera, until it is answered. ``captured_s`` is its scene time too.

    ``number`` counts the camera's frames; ``ready_at_s`` is when nothing better will come; ``waits_until_s`` is until
    when an answer of the cloud is waited for once its turn to go out has come.
    """

    number: int
    scene: SceneFrame
    captured_s: float
    settle_at_s: float
    waits_until_s: float = math.inf
    ready_at_s: float | None = None
    origin: Origin = Origin.CARRIED
    reason: str = ""


def _area_px(places: Sequence[Candidate]) -> float:
    return sum((x2 - x1 + _MARGIN_PX) * (y2 - y1 + _MARGIN_PX) for x1, y1, x2, y2 in (place.box for place in places))


def _part_of(shot: Shot, share: float) -> Shot:
    pixels = max(0.05, share)
    return Shot(
        size_bytes=round(OVERHEAD_BYTES + max(0.0, shot.size_bytes - OVERHEAD_BYTES) * share),
        width_px=shot.width_px,
        height_px=max(1, round(shot.height_px * pixels)),
        shown_px=shot.shown_px * share,
        encode_ms=shot.encode_ms * share,
        decode_ms=shot.decode_ms * share,
        infer_ms=shot.infer_ms * pixels,
    )
