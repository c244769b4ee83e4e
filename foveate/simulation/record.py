"""Make a workload from a clip: the product's own stages, one after another, each timed on this machine.

The cloud answers at once, and is asked what the decisions of an agent with these settings and this uplink budget ask.
Its answers correct the tracks and teach the gain model, so the places and their gains are those of such a camera.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import cv2
import msgspec

from cloud_worker.model_runner import decode_jpeg
from cloud_worker.replies import per_crop
from edge_agent.candidates import Survey, as_candidates, due, survey
from edge_agent.frame_work import draw, look, wanted
from edge_agent.fusion import fuse, merge_crops
from edge_agent.gain_lessons import GainLessons
from edge_agent.gate import Gate
from edge_agent.settings import CameraSettings, UplinkSettings
from edge_agent.tracking.history import Entry, Tracker, analysed_answer
from foveate.bench.serial import load_models, read_frames
from foveate.plan import Plan
from foveate.simulation.agent_decisions import AgentDecisions, CameraDecisions
from foveate.simulation.scene import Look, SceneFrame, question_bytes
from foveate.simulation.workload import Place, RecordedFrame, Shot, Workload
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.errors import SourceError
from pipeline.frames import Frame
from pipeline.geometry import Size
from pipeline.mosaic import Layout, regions_xyxy, shown_px, to_frame
from pipeline.policies.offload import OffloadDecision
from pipeline.policies.path import RoundTrip
from pipeline.timing import Clock, cpu_s

T = TypeVar("T")
WHOLE_FRAMES_TIMED = 8
"""One analysed frame in so many is also looked at as a whole; the others take over its times."""
NETWORK_MS = 4.0
"""What broker and sessions take of a round trip without a link between them."""
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
        self._agent = AgentDecisions(uplink, {settings.name: settings.weight})
        self._decisions = CameraDecisions("recorder", settings.name, settings)
        self._lessons = GainLessons(settings.gain, settings.offload.audit_share)
        self._whole: Shot | None = None
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
        recorded = RecordedFrame(
            seq=frame.key.seq,
            at_s=at_s,
            gate_ms=gate_ms,
            edge_ms=edge_ms,
            places=tuple(Place(p.box, p.why, p.gain, p.score, now) for p, now in zip(places, allowed, strict=True)),
            least_score=seen.places.least_published_score,
            mosaic=None,
            whole=self._look_at_whole(frame),
        )
        self._frames.append(self._look_again(frame, entry, seen, SceneFrame.of(recorded, frame.size)))

    def _look_again(self, frame: Frame, entry: Entry, seen: Survey, scene: SceneFrame) -> RecordedFrame:
        """Ask the larger model what the policy asks, and see what a mosaic of all due places takes."""
        settings, at_s = self._settings, scene.frame.at_s
        now_s = at_s + (scene.frame.gate_ms + scene.frame.edge_ms) / 1000
        settle_at_s = at_s + settings.deadline_ms / 1000
        decision = self._decisions.decide(self._agent, Look(frame.key.seq, scene, at_s, settle_at_s), now_s)
        shown, shot = scene.due or scene.all, None
        if decision.kind != "none":
            self._lessons.asked(frame.key, seen, decision)
            shot, layout, found = self._shoot(frame, decision)
            self._answered(decision, shot, at_s, now_s)
            self._correct(frame, entry, layout, found, whole=decision.kind == "frame")
        if not shown:
            return scene.frame
        if shot is not None and decision.places == shown:
            return msgspec.structs.replace(scene.frame, mosaic=shot)
        mosaic, _, _ = self._shoot(frame, OffloadDecision("mosaic", shown[0].why.value, shown))
        asked = tuple(scene.all.index(place) for place in decision.places) if decision.kind == "mosaic" else ()
        return msgspec.structs.replace(scene.frame, mosaic=mosaic, asked=asked, sent=shot if asked else None)

    def _answered(self, decision: OffloadDecision, shot: Shot, at_s: float, now_s: float) -> None:
        """Tell the decisions what the question cost, and that its answer came at once."""
        size_bytes, worker_ms = question_bytes(shot), shot.decode_ms + shot.infer_ms
        self._decisions.drawn(decision, shot)
        self._decisions.asks(decision, shot, at_s)
        self._agent.sent(self._settings.name, size_bytes, 0, now_s)
        trip = RoundTrip(decision.kind, size_bytes, 0.0, NETWORK_MS + worker_ms, 0.0, worker_ms)
        self._agent.answered(trip, now_s + trip.round_trip_ms / 1000)

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
