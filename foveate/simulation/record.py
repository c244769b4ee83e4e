"""Make a workload from a clip: the product's own stages, one after another, each timed on this machine.

The cloud is asked whatever the policy would ask without a budget, and its answers correct the tracks and teach the gain
model, so the places and their gains are those of a camera whose questions are answered.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import cv2

from cloud_worker.model_runner import decode_jpeg
from cloud_worker.replies import per_crop
from edge_agent.analysis import policy_for
from edge_agent.candidates import Survey, as_candidates, due, survey
from edge_agent.frame_work import draw, look, wanted
from edge_agent.fusion import fuse, merge_crops
from edge_agent.gate import Gate
from edge_agent.lessons import Lessons, audited
from edge_agent.settings import CameraSettings, UplinkSettings
from edge_agent.tracking.history import Entry, Tracker, analysed_answer
from foveate.bench.serial import load_models, read_frames
from foveate.plan import Plan
from foveate.simulation.workload import Place, RecordedFrame, Shot, Workload
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.errors import SourceError
from pipeline.frames import Frame
from pipeline.geometry import Size
from pipeline.mosaic import Layout, regions_xyxy, shown_px, to_frame
from pipeline.policies.offload import OFFLOAD_KINDS, Candidate, OffloadDecision, OffloadView
from pipeline.timing import Clock, cpu_s

T = TypeVar("T")
WHOLE_FRAMES_TIMED = 8
"""One analysed frame in so many is also looked at as a whole; the others take over its times."""
_WHOLE = OffloadDecision("frame", "search_for_missed")


class CpuClock:
    """The CPU time of this process: on one thread, what a machine that has nothing else to do would take."""

    def now_s(self) -> float:
        return cpu_s()


class Recorder:
    """The stages of one camera. ``detectors`` are the small and the large model; ``clock`` times each piece of work."""

    def __init__(
        self, settings: CameraSettings, uplink: UplinkSettings, detectors: tuple[Detector, Detector], clock: Clock
    ) -> None:
        self._settings, self._uplink, self._clock = settings, uplink, clock
        self._edge, self._cloud = detectors
        self._gate, self._tracker = Gate(settings), Tracker(settings.tracker)
        self._policy = policy_for(settings.mode, OFFLOAD_KINDS[settings.offload.policy](settings.offload))
        self._lessons = Lessons(settings.gain, settings.offload.audit_share)
        self._whole: Shot | None = None
        self._full_frame_at_s: float | None = None
        self._frames: list[RecordedFrame] = []
        self._captured = self._sampled = 0
        self._last_s = self._period_s = 0.0
        self._size = Size(0, 0)

    def record(self, frames: Iterable[Frame]) -> Workload:
        """Take in all frames. Raises SourceError where none of them was analysed."""
        for frame in frames:
            self._take(frame, 0.0 if frame.media_ms is None else frame.media_ms / 1000)
        if not self._frames:
            raise SourceError(f"No frame of {self._settings.name} was analysed: name a longer clip.")
        return Workload(
            name=self._settings.name,
            duration_s=self._last_s + self._period_s,
            sample_fps=self._settings.sample_fps,
            frame_width_px=self._size.width,
            frame_height_px=self._size.height,
            captured=self._captured,
            sampled=self._sampled,
            frames=tuple(self._frames),
        )

    def _take(self, frame: Frame, at_s: float) -> None:
        self._period_s = at_s - self._last_s if at_s > self._last_s else self._period_s
        self._last_s = at_s
        self._captured += 1
        self._size = frame.size
        region = self._gate.fit(frame.size)
        if not self._gate.due(at_s):
            return
        self._sampled += 1
        gated, gate_ms = self._timed(lambda: self._gate.look(frame.image, at_s))
        if not gated.keep:
            return
        found, edge_ms = self._timed(lambda: look(self._edge, frame, self._settings, region))
        entry = self._tracker.observe(frame.key.seq, at_s, found)
        self._gate.tracks(entry)
        settings = self._settings
        seen = survey(entry, gated.motion, frame.size, self._lessons.model, settings.candidates, settings.tracker)
        places = as_candidates(seen.places, seen.gain, settings.candidates, due_only=False)
        allowed = due(seen.places, settings.candidates).tolist()
        self._frames.append(
            RecordedFrame(
                seq=frame.key.seq,
                at_s=at_s,
                gate_ms=gate_ms,
                edge_ms=edge_ms,
                places=tuple(Place(p.box, p.why, p.gain, p.score, now) for p, now in zip(places, allowed, strict=True)),
                least_score=seen.places.least_published_score,
                mosaic=self._look_again(frame, entry, seen, places),
                whole=self._look_at_whole(frame),
            )
        )

    def _look_again(self, frame: Frame, entry: Entry, seen: Survey, places: tuple[Candidate, ...]) -> Shot | None:
        """Ask the larger model what the policy would ask it, and take what a mosaic of the due places takes."""
        candidates = as_candidates(seen.places, seen.gain, self._settings.candidates, due_only=True)
        decision, shot = self._decide(frame, entry, seen, candidates, places), None
        if decision.kind != "none":
            self._lessons.asked(frame.key, seen, decision)
            shot, layout, found = self._shoot(frame, decision)
            self._correct(frame, entry, layout, found, whole=decision.kind == "frame")
        shown = candidates or places
        if not shown or (shot is not None and decision.places == shown):
            return shot if shown else None
        return self._shoot(frame, OffloadDecision("mosaic", shown[0].why.value, shown))[0]

    def _decide(
        self, frame: Frame, entry: Entry, seen: Survey, candidates: tuple[Candidate, ...], places: tuple[Candidate, ...]
    ) -> OffloadDecision:
        if self._full_frame_at_s is None:
            self._full_frame_at_s = entry.at_s
        view = OffloadView(
            candidates=candidates,
            remaining_ms=self._settings.deadline_ms,
            round_trip_ms={},
            expected_bytes={},
            tokens_bytes=None,
            since_full_frame_s=entry.at_s - self._full_frame_at_s,
            reachable=True,
            least_score=seen.places.least_published_score,
            audited=places if audited(frame.key, self._settings.offload.audit_share) else (),
        )
        decision = self._policy.decide(view)
        if decision.kind == "frame":
            self._full_frame_at_s = entry.at_s
        return decision

    def _correct(self, frame: Frame, entry: Entry, layout: Layout, found: Detections, *, whole: bool) -> None:
        key, regions, tracking = frame.key, regions_xyxy(layout), self._settings.tracker
        replies = per_crop(found, layout.crops, self._uplink.asked_score)
        parts = [to_frame(crop, reply) for crop, reply in zip(layout.crops, replies, strict=True)]
        cloud = wanted(merge_crops(parts, regions), self._settings, self._gate.region)
        before = analysed_answer(entry, frame.size, tracking)
        self._tracker.correct(key.seq, fuse(entry.seen.detections, cloud, regions, self._uplink.min_score))
        corrected = self._tracker.entry(key.seq)
        if corrected is not None:
            after = analysed_answer(corrected, frame.size, tracking)
            self._lessons.answered(key, before, after, regions, whole=whole)

    def _look_at_whole(self, frame: Frame) -> Shot:
        if self._whole is None or len(self._frames) % WHOLE_FRAMES_TIMED == 0:
            self._whole, _, _ = self._shoot(frame, _WHOLE)
        return self._whole

    def _shoot(self, frame: Frame, decision: OffloadDecision) -> tuple[Shot, Layout, Detections]:
        (layout, data), encode_ms = self._timed(lambda: draw(frame, decision, self._settings))
        image, decode_ms = self._timed(lambda: decode_jpeg(memoryview(data), layout.size))
        if image is None:
            raise RuntimeError(f"a JPEG of {layout.size} that was just encoded cannot be decoded")
        found, infer_ms = self._timed(lambda: self._cloud.detect([image], self._uplink.asked_score)[0])
        size = layout.size
        shown, crops = shown_px(layout), len(layout.crops)
        shot = Shot(len(data), size.width, size.height, shown, crops, encode_ms, decode_ms, infer_ms)
        return shot, layout, found

    def _timed(self, call: Callable[[], T]) -> tuple[T, float]:
        started_s = self._clock.now_s()
        done = call()
        return done, (self._clock.now_s() - started_s) * 1000


def record_clip(clip: Path, product: Plan, seconds: float | None = None) -> Workload:
    """Record a clip, or its first ``seconds``, with the settings of a plan's first camera. Raises SourceError."""
    settings, clock = product.agent.cameras[0], CpuClock()
    cv2.setNumThreads(1)
    recorder = Recorder(settings, product.agent.uplink, load_models(product), clock)
    frames = read_frames(clip, settings.name, clock)
    most_ms = float("inf") if seconds is None else seconds * 1000
    return recorder.record(frame for frame in frames if (frame.media_ms or 0.0) < most_ms)
