"""The stages of the product one after another in one process: what the conveyor's throughput is held against.

Every stage is the product's own. A record of a run of the conveyor on the same clip says which frames were analysed,
for which the cloud was asked, and for which it answered, so that both sides do the same work even where the conveyor
left some out for want of time or budget. Work that the conveyor may have done for an answer that came too late is not
repeated here: in doubt the serial loop has less to do.
``python -m foveate.bench.serial CLIP PLAN_RECORD FOLDER`` writes ``counts.json`` and ``record.jsonl`` into the folder.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import cv2
import msgspec
import numpy as np

from cloud_worker.model_runner import decode_jpeg
from cloud_worker.replies import per_crop
from edge_agent import answers
from edge_agent.analysis import policy_for
from edge_agent.candidates import as_candidates, survey
from edge_agent.capture.readers import MediaClock
from edge_agent.frame_work import answer, draw, look, wanted
from edge_agent.fusion import fuse, merge_crops
from edge_agent.gain_lessons import GainLessons, audited
from edge_agent.gate import BASELINE_EVERY, Gate, baseline_bytes
from edge_agent.resolve import Pending, Phase
from edge_agent.settings import CameraSettings, UplinkSettings
from edge_agent.tracking.history import Entry, Tracker, analysed_answer
from foveate.bench.accuracy import read_record
from foveate.bench.work import NO_WORK, SerialRun, Work, counts_of, work_of
from foveate.config.settings import for_sources, plan
from foveate.plan import Plan
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.detectors.loading import load_detector
from pipeline.errors import SourceError
from pipeline.frames import Frame, FrameKey
from pipeline.geometry import BoxArray
from pipeline.mosaic import Layout, regions_xyxy, to_frame
from pipeline.policies.offload import OFFLOAD_KINDS, OffloadDecision, OffloadView
from pipeline.policies.tier_cost import Tier
from pipeline.results import Origin, Result, encode_result
from pipeline.timing import Clock, MonotonicClock, wall_time


class SerialLoop:
    """The stages of one camera, one frame at a time. ``work`` says what is to be done, ``clock`` stamps the results."""

    def __init__(
        self,
        settings: CameraSettings,
        uplink: UplinkSettings,
        detectors: tuple[Detector, Detector],
        work: Mapping[int, Work],
        clock: Clock,
    ) -> None:
        self._settings, self._uplink, self._work, self._clock = settings, uplink, work, clock
        self._edge, self._cloud = detectors
        self._gate = Gate(settings)
        self._tracker = Tracker(settings.tracker)
        self._policy = policy_for(settings.mode, OFFLOAD_KINDS[settings.offload.policy](settings.offload))
        self._lessons = GainLessons(settings.gain, settings.offload.audit_share)
        self._full_frame_at_s: float | None = None

    def answer(self, frame: Frame) -> Result:
        """Take one frame through all stages to its result."""
        seq, scene_s = frame.key.seq, _scene_s(frame)
        self._gate.fit(frame.size)
        if seq % BASELINE_EVERY == 0:
            baseline_bytes(frame)
        if not self._gate.due(scene_s):
            return self._result(frame, None, Origin.CARRIED, "not_due")
        gated = self._gate.look(frame.image, scene_s)
        work = self._work.get(seq, NO_WORK)
        if not gated.keep or not work.analysed:
            return self._result(frame, None, Origin.CARRIED, gated.reason)
        found = look(self._edge, frame, self._settings, self._gate.fit(frame.size))
        self._gate.tracks(self._tracker.observe(seq, scene_s, found))
        decision = self._decide(self._entry(seq), gated.motion, frame, work)
        if decision.kind == "none":
            return self._result(frame, self._entry(seq), Origin.EDGE, decision.reason)
        if decision.kind == "frame":
            self._full_frame_at_s = scene_s
        layout, data = draw(frame, decision, self._settings)
        if not work.answered:
            return self._result(frame, self._entry(seq), Origin.EDGE_TIMEOUT, decision.reason, len(data))
        self._correct(frame, layout, self._second_look(layout, data), whole=decision.kind == "frame")
        origin = Origin.CLOUD if decision.kind == "frame" else Origin.FUSED
        return self._result(frame, self._entry(seq), origin, decision.reason, len(data))

    def _entry(self, seq: int) -> Entry:
        entry = self._tracker.entry(seq)
        if entry is None:
            raise RuntimeError(f"frame {seq} was observed and is not remembered")
        return entry

    def _wanted(self, found: Detections) -> Detections:
        return wanted(found, self._settings, self._gate.region)

    def _decide(self, entry: Entry, motion: BoxArray, frame: Frame, work: Work) -> OffloadDecision:
        if self._full_frame_at_s is None:
            self._full_frame_at_s = entry.at_s
        settings, model = self._settings, self._lessons.model
        seen = survey(entry, motion, frame.size, model, settings.candidates, settings.tracker)
        audit = audited(frame.key, settings.offload.audit_share)
        view = OffloadView(
            candidates=as_candidates(seen.places, seen.gain, settings.candidates, due_only=True),
            remaining_ms=self._settings.deadline_ms,
            round_trip_ms={},
            expected_bytes={},
            tokens_bytes=None,
            since_full_frame_s=entry.at_s - self._full_frame_at_s,
            reachable=work.asked,
            unreachable_reason="not_asked_by_the_conveyor",
            least_score=seen.places.least_published_score,
            audited=as_candidates(seen.places, seen.gain, settings.candidates, due_only=False) if audit else (),
        )
        decision = self._policy.decide(view)
        if decision.kind != "none":
            self._lessons.asked(frame.key, seen, decision)
        return decision

    def _second_look(self, layout: Layout, data: bytes) -> Detections:
        """What the large model sees on the picture sent, in frame pixels."""
        image = decode_jpeg(memoryview(data), layout.size)
        if image is None:
            raise RuntimeError(f"a JPEG of {layout.size} that was just encoded cannot be decoded")
        found = self._cloud.detect([image], self._uplink.asked_score)[0]
        replies = per_crop(found, layout.crops, self._uplink.asked_score)
        parts = [to_frame(crop, reply) for crop, reply in zip(layout.crops, replies, strict=True)]
        return merge_crops(parts, regions_xyxy(layout))

    def _correct(self, frame: Frame, layout: Layout, cloud: Detections, *, whole: bool) -> None:
        key, looked_at, tracking = frame.key, regions_xyxy(layout), self._settings.tracker
        entry = self._entry(key.seq)
        before = analysed_answer(entry, frame.size, tracking)
        seen = fuse(entry.seen.detections, self._wanted(cloud), looked_at, self._uplink.min_score)
        self._tracker.correct(key.seq, seen)
        after = analysed_answer(self._entry(key.seq), frame.size, tracking)
        self._lessons.answered(key, before, after, looked_at, whole=whole)

    def _result(self, frame: Frame, entry: Entry | None, origin: Origin, reason: str, bytes_up: int = 0) -> Result:
        scene_s = _scene_s(frame)
        found = answer(self._tracker, entry, scene_s, frame.size, self._settings)
        now_s, asked = self._clock.now_s(), origin in (Origin.CLOUD, Origin.FUSED)
        pending = Pending(
            key=frame.key,
            size=frame.size,
            captured_at_s=frame.captured_at_s,
            scene_s=scene_s,
            media_ms=frame.media_ms,
            deadline_s=frame.captured_at_s + self._settings.deadline_ms / 1000,
            phase=Phase.SETTLED,
            origin=origin,
            reason=reason,
            bytes_up=bytes_up,
            edge_model=_title(self._edge),
            cloud_model=_title(self._cloud) if asked else None,
            tier=Tier.CLOUD if asked else Tier.DEVICE,
        )
        captured_at = wall_time() - timedelta(seconds=now_s - frame.captured_at_s)
        stamp = answers.Stamp(captured_at, now_s, now_s, self._settings.deadline_ms)
        return answers.build(pending, self._wanted(found), stamp)


def _title(detector: Detector) -> str:
    return f"{detector.name}@{detector.version}"


def _scene_s(frame: Frame) -> float:
    return frame.captured_at_s if frame.media_ms is None else frame.media_ms / 1000


def read_frames(clip: Path, camera: str, clock: Clock) -> Iterator[Frame]:
    """The frames of a clip, decoded on one thread and timed as the product does. Raises SourceError without any."""
    capture = cv2.VideoCapture(str(clip), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    media = MediaClock(capture.get(cv2.CAP_PROP_FPS) or None)
    seq = 0
    try:
        while True:
            readable, image = capture.read()
            if not readable:
                break
            media_ms = media.at(capture.get(cv2.CAP_PROP_POS_MSEC))
            yield Frame(FrameKey(camera, 0, seq), np.asarray(image, np.uint8), clock.now_s(), media_ms)
            seq += 1
    finally:
        capture.release()
    if seq == 0:
        raise SourceError(f"No frame can be read from {clip}: name a video file.")


def run_serial(loop: SerialLoop, frames: Iterator[Frame], out: BinaryIO, clock: Clock) -> SerialRun:
    """Answer all frames, one after another, and write the results as lines of JSON."""
    results: dict[int, Result] = {}
    started_s = clock.now_s()
    for frame in frames:
        result = loop.answer(frame)
        out.write(encode_result(result) + b"\n")
        results[result.seq] = result
    return SerialRun(counts_of(results), clock.now_s() - started_s)


def run_plan(clip: Path) -> Plan:
    """What ``foveate run CLIP`` would start, so that both sides have the same settings."""
    return plan(for_sources([str(clip)]))


def load_models(product: Plan) -> tuple[Detector, Detector]:
    """The small and the large model of a plan, one inference thread each, warm."""
    edge, cloud = product.edge_model, product.agent.uplink.model
    sizes = {} if product.worker is None else {model.name: model.input_size for model in product.worker.models}
    small = load_detector(edge.name, input_size=edge.input_size, threads=1, models_dir=product.models_dir)
    large = load_detector(cloud, input_size=sizes.get(cloud), threads=1, models_dir=product.models_dir)
    picture = np.full((*large.entry.input.largest_px, 3), 114, np.uint8)
    for detector in (small, large):
        detector.detect([picture], 0.5)
    return small, large


def main() -> None:
    """Run over a clip."""
    clip, record, folder = (Path(argument) for argument in sys.argv[1:])
    cv2.setNumThreads(1)
    clock, product = MonotonicClock(), run_plan(clip)
    settings = product.agent.cameras[0]
    loop = SerialLoop(settings, product.agent.uplink, load_models(product), work_of(read_record(record)), clock)
    with (folder / "record.jsonl").open("wb") as out:
        run = run_serial(loop, read_frames(clip, settings.name, clock), out, clock)
    (folder / "counts.json").write_bytes(msgspec.json.encode(run))


if __name__ == "__main__":
    main()
