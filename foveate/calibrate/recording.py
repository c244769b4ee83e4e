"""A recording as a camera's own edge side sees it, and what the larger model makes of the same frames."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge_agent.arms import configured_arm
from edge_agent.candidates import as_candidates
from edge_agent.frame_work import draw, look, wanted
from edge_agent.gate import Gate, Gated
from edge_agent.region_of_interest import RegionOfInterest
from edge_agent.settings import CameraSettings
from foveate.bench.serial import read_frames
from foveate.calibrate.arms import ArmTrial, Cloud, send
from foveate.calibrate.replay import Looked, Replay
from pipeline.detectors.base import Detector
from pipeline.errors import SourceError
from pipeline.frames import Frame
from pipeline.policies.crop_arms import ARMS, ArmRecord, CropArm
from pipeline.policies.gain import PRIOR
from pipeline.policies.offload import OffloadDecision
from pipeline.timing import Clock

MOST_FRAMES = 1500
"""Analysed frames that are learned from: five minutes."""
TRIAL_EVERY_S = 4.0
MOST_TRIALS = 12


@dataclass(frozen=True, slots=True)
class Cost:
    """What was measured: bytes of a whole frame, and milliseconds of a look at the edge, of drawing, and of a look by
    the larger model.
    """

    frame_bytes: float
    edge_ms: float
    draw_ms: float
    cloud_ms: float


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """The analysed frames of a recording of ``duration_s``, what looks cost, and what each arm shows for its bytes."""

    frames: tuple[Looked, ...]
    duration_s: float
    cost: Cost
    arms: Mapping[CropArm, ArmRecord]
    bytes_per_px: Mapping[CropArm, float]


@dataclass(slots=True)
class _Times:
    edge_ms: list[float] = field(default_factory=list)
    draw_ms: list[float] = field(default_factory=list)
    cloud_ms: list[float] = field(default_factory=list)
    frame_bytes: list[int] = field(default_factory=list)


class Recorder:
    """Plays a recording once, one frame after another, as fast as both models go."""

    def __init__(self, settings: CameraSettings, edge: Detector, cloud: Cloud, clock: Clock) -> None:
        self._settings, self._edge, self._cloud, self._clock = settings, edge, cloud, clock
        self._gate, self._replay, self._times = Gate(settings), Replay(settings), _Times()
        self._trial = ArmTrial(settings, cloud, {*ARMS, configured_arm(settings)})
        self._trials, self._next_trial_s = 0, float("-inf")

    def play(self, clip: Path, say: Callable[[str], None]) -> Recording:
        """Raises SourceError where no frame can be read, or none is worth a look."""
        looked, last_s = [], 0.0
        for frame, gated, region, scene_s in self._analysed(clip):
            last_s = scene_s
            looked.append(self._look(frame, gated, region, scene_s))
            if len(looked) % 100 == 0:
                say(f"{len(looked)} frames analysed, {self._trials} of them shown to the larger model in every way")
            if len(looked) == MOST_FRAMES:
                break
        if not looked:
            raise SourceError(f"In {clip} no frame was worth a look: name a recording of a scene in use.")
        times, median = self._times, statistics.median
        cost = Cost(median(times.frame_bytes), median(times.edge_ms), median(times.draw_ms), median(times.cloud_ms))
        duration_s = last_s - looked[0].scene_s + 1 / self._settings.sample_fps
        return Recording(tuple(looked), duration_s, cost, self._trial.records, self._trial.bytes_per_px)

    def _analysed(self, clip: Path) -> Iterator[tuple[Frame, Gated, RegionOfInterest, float]]:
        for frame in read_frames(clip, self._settings.name, self._clock):
            scene_s = frame.captured_at_s if frame.media_ms is None else frame.media_ms / 1000
            region = self._gate.fit(frame.size)
            if self._gate.due(scene_s):
                gated = self._gate.look(frame.image, scene_s)
                if gated.keep:
                    yield frame, gated, region, scene_s

    def _look(self, frame: Frame, gated: Gated, region: RegionOfInterest, scene_s: float) -> Looked:
        clock, times, settings = self._clock, self._times, self._settings
        at_s = [clock.now_s()]
        edge = look(self._edge, frame, settings, region)
        at_s.append(clock.now_s())
        layout, data = draw(frame, OffloadDecision("frame", "calibration"), settings)
        at_s.append(clock.now_s())
        cloud = wanted(send(self._cloud, layout, data), settings, region)
        at_s.append(clock.now_s())
        for kept, begun_s, done_s in zip((times.edge_ms, times.draw_ms, times.cloud_ms), at_s, at_s[1:], strict=False):
            kept.append((done_s - begun_s) * 1000)
        times.frame_bytes.append(len(data))
        seen = Looked(frame.key.seq, scene_s, frame.size, edge, cloud, gated.motion)
        self._try_arms(frame, seen)
        return seen

    def _try_arms(self, frame: Frame, seen: Looked) -> None:
        entry = self._replay.observe(seen)
        if seen.scene_s < self._next_trial_s or self._trials == MOST_TRIALS:
            return
        known = self._replay.survey(seen, entry, PRIOR)
        places = as_candidates(known.places, known.gain, self._settings.candidates, due_only=True)
        if places:
            self._trials += 1
            self._next_trial_s = seen.scene_s + TRIAL_EVERY_S
            self._trial.look(frame.image, places)
