"""A recorded workload as it is replayed, and the frames of simulated cameras."""

import math
from dataclasses import dataclass, field

from edge_agent.settings import CameraSettings
from foveate.simulation.workload import RecordedFrame, Shot, Workload
from pipeline.geometry import Size
from pipeline.mosaic import Layout, pack, shown_px, to_rects
from pipeline.policies.offload import OVERHEAD_BYTES, Candidate, OffloadDecision, crops
from pipeline.policies.sampler import Sampler
from pipeline.results import Origin

_MOST_SHOTS = 16
_HEADER_BYTES, _CROP_BYTES = 175, 19
"""Of a question beside its picture, see ``pipeline/wire/messages.py``: a header, and what each crop takes in it."""


@dataclass(frozen=True, slots=True, eq=False)
class SceneFrame:
    """A recorded frame with its places as the policies take them: those that are due, and all."""

    frame: RecordedFrame
    size: Size
    due: tuple[Candidate, ...]
    all: tuple[Candidate, ...]
    _shots: dict[tuple[int, ...], Shot] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: RecordedFrame, size: Size) -> "SceneFrame":
        """A frame of ``size`` made ready."""
        places = [(place.candidate(), place.due) for place in frame.places]
        return cls(frame, size, tuple(c for c, due in places if due), tuple(c for c, _ in places))

    def shot(self, decision: OffloadDecision, settings: CameraSettings) -> Shot:
        """The picture that a decision sends. The mosaic of other places than the due ones was not recorded: it is laid
        out as the agent does, and what it takes goes by the pixels, as in the recorded one.
        """
        recorded, shown = self.frame.mosaic, self.due or self.all
        if decision.kind == "frame" or recorded is None:
            return self.frame.whole
        if decision.places == shown:
            return recorded
        # Cameras that show the same scene choose the same places again and again.
        key = (id(settings), *map(id, decision.places))
        if key not in self._shots:
            self._shots[key] = self._laid_out(decision, settings, recorded)
            while len(self._shots) > _MOST_SHOTS:
                del self._shots[next(iter(self._shots))]
        return self._shots[key]

    def _laid_out(self, decision: OffloadDecision, settings: CameraSettings, recorded: Shot) -> Shot:
        sent = self.frame.sent
        if sent is not None and decision.places == tuple(self.all[number] for number in self.frame.asked):
            return sent
        regions = to_rects(crops(decision.places, settings.offload, self.size), self.size)
        # What is chosen is denser than the rest: where some was chosen in the recording, that tells best.
        return _of_layout(sent or recorded, pack(regions, settings.mosaic))


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
        size = Size(workload.frame_width_px, workload.frame_height_px)
        return cls(workload, tuple(SceneFrame.of(frame, size) for frame in frames))


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


def question_bytes(shot: Shot) -> int:
    """The whole payload of a question: the picture, and a header that tells of each crop."""
    return shot.size_bytes + _HEADER_BYTES + _CROP_BYTES * shot.crops


def _of_layout(like: Shot, layout: Layout) -> Shot:
    shown, pixels = shown_px(layout), layout.size.width * layout.size.height
    of_shown, of_pixels = shown / like.shown_px, pixels / (like.width_px * like.height_px)
    return Shot(
        size_bytes=round(OVERHEAD_BYTES + max(0.0, like.size_bytes - OVERHEAD_BYTES) * of_shown),
        width_px=layout.size.width,
        height_px=layout.size.height,
        shown_px=shown,
        crops=len(layout.crops),
        encode_ms=like.encode_ms * of_pixels,
        decode_ms=like.decode_ms * of_pixels,
        infer_ms=like.infer_ms * of_pixels,
    )
