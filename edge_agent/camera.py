"""The path of a frame: capture, gate, detect, offload, resolve, publish. One chain of stages per camera.

Capture and gate run in one task, detection in a second, resolving in a third, joined by a channel of size one and by
the resolver; the cloud's answers come in between. Decisions live elsewhere and are pure; this file carries values from
one to the next and starts CPU work on the pools.
"""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

import numpy as np

from edge_agent import answers
from edge_agent.board import Board, Picture
from edge_agent.candidates import candidates
from edge_agent.capture.base import Captured, Ended, StateChange, VideoSource
from edge_agent.fusion import fuse, merge_crops
from edge_agent.gate import BASELINE_EVERY, Gate, Gated, baseline_bytes, jpeg
from edge_agent.pools import Pools
from edge_agent.region_of_interest import RegionError
from edge_agent.resolve import FrameTimings, Pending, Phase, Resolver, Settlement
from edge_agent.settings import CameraSettings
from edge_agent.tracking.history import Entry, Tracker, analysed_answer, carried_answer
from edge_agent.tracking.tracks import Verdict
from edge_agent.uplink import Answer, Outlook, Question, Uplink
from pipeline.channels import Channel, Closed, Overflow
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.frames import Frame, FrameKey
from pipeline.geometry import Size
from pipeline.mosaic import Layout, pack, regions_xyxy, render, to_frame, to_rects, whole_frame
from pipeline.policies.latency import DurationEstimate
from pipeline.policies.offload import Adaptive, Always, Never, OffloadDecision, OffloadPolicy, OffloadView, crops
from pipeline.results import CameraState, DropReason, Origin, Result
from pipeline.timing import Clock, wall_time

_UNREACHABLE = frozenset({"broker_down", "no_worker", "circuit_open", "edge_only", "nothing_uncertain"})
"""Reasons for which the edge's own answer is no second best: nothing was held back for want of room or time."""


class Outlet(Protocol):
    """Where a camera's results and states go."""

    async def result(self, result: Result) -> None: ...

    def record(self, result: Result) -> None: ...

    async def state(self, camera: str, board: Board) -> None: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What all cameras of an agent share. ``settle_margin_s`` before its deadline a frame is settled."""

    detector: Detector
    uplink: Uplink
    pools: Pools
    outlet: Outlet
    clock: Clock
    epoch: int
    settle_margin_s: float
    frames_in_flight: int


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """A frame for the small model."""

    frame: Frame
    gated: Gated
    scene_s: float


def policy_for(settings: CameraSettings) -> OffloadPolicy:
    """The offload policy of a camera's mode."""
    policies: dict[str, OffloadPolicy] = {
        "adaptive": Adaptive(settings.offload),
        "edge_only": Never(),
        "cloud_only": Always(),
    }
    return policies[settings.mode]


class Camera:
    """One camera from its source to its results."""

    def __init__(self, settings: CameraSettings, source: VideoSource, tools: Tools, board: Board) -> None:
        self._settings, self._source, self._tools, self.board = settings, source, tools, board
        self._gate = Gate(settings)
        self._tracker = Tracker(settings.tracker)
        self._policy = policy_for(settings)
        self._resolver = Resolver(tools.settle_margin_s)
        self._work: Channel[_Work] = Channel(
            f"{settings.name}/detect", 1, Overflow.DROP_OLDEST if source.live else Overflow.WAIT
        )
        self._kick, self._room = asyncio.Event(), asyncio.Event()
        self._edge_ms = DurationEstimate()
        self._expected_bytes: dict[str, float] = {}
        self._offloads = 0
        self._newest_image: tuple[FrameKey, Frame] | None = None
        self._captured_all = False
        self.ended: Ended | None = None
        tools.uplink.register(settings.name, self)

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def settings(self) -> CameraSettings:
        return self._settings

    @property
    def source(self) -> VideoSource:
        return self._source

    async def run(self) -> Ended | None:
        """Run until the source ends; returns how it ended. Cancelling stops at once and counts what was under way."""
        try:
            async with asyncio.TaskGroup() as stages:
                stages.create_task(self._detect(), name=f"{self.name}/detect")
                stages.create_task(self._resolve(), name=f"{self.name}/resolve")
                await self._capture()
                self._captured_all = True
                await self._work.close()
                self._kick.set()
        finally:
            self.board.ledger.drop_open(DropReason.STOPPED)
            with contextlib.suppress(OSError):
                await self._source.close()
        return self.ended

    # capture and gate

    async def _capture(self) -> None:
        async for event in self._source.events():
            if isinstance(event, Captured):
                await self._admit(event)
            elif isinstance(event, StateChange):
                await self._went(event.state, event.reason)
            else:
                await self._end(event)
                return

    async def _end(self, ended: Ended) -> None:
        self.ended = ended
        await self._went(ended.state, ended.reason)

    async def _went(self, state: CameraState, reason: str) -> None:
        if self.board.went(state, reason, wall_time()):
            await self._tools.outlet.state(self.name, self.board)

    async def _admit(self, event: Captured) -> None:
        ledger = self.board.ledger
        ledger.never_seen(event.lost_before, DropReason.OVERWRITTEN)
        ledger.never_seen(event.unusable_before, DropReason.UNUSABLE)
        key = FrameKey(self.name, self._tools.epoch, event.seq)
        frame = Frame(key, event.image, event.captured_at_s, event.media_ms)
        ledger.capture(key)
        self.board.captured_rate.add(event.captured_at_s)
        await self._make_room()
        try:
            region = self._gate.fit(frame.size)
        except RegionError as fault:
            ledger.drop(key, DropReason.UNUSABLE)
            await self._went(CameraState.INVALID_INPUT, str(fault))
            return
        if region.warning:
            self.board.counters[region.warning] += 1
        await self._sample(frame, self._scene_s(frame))

    async def _make_room(self) -> None:
        """Hold a source that is not live back while enough frames are under way (flow limiter)."""
        while not self._source.live and len(self._resolver) >= self._tools.frames_in_flight:
            self._room.clear()
            await self._room.wait()

    def _scene_s(self, frame: Frame) -> float:
        """Time for sampling and tracking: a file's own, else that of capture."""
        file_like = not self._source.live or self._settings.capture.realtime
        return frame.media_ms / 1000 if file_like and frame.media_ms is not None else frame.captured_at_s

    async def _sample(self, frame: Frame, scene_s: float) -> None:
        started_s = self._tools.clock.now_s()
        timings = FrameTimings(wait_ms=(started_s - frame.captured_at_s) * 1000)
        if not self._gate.due(scene_s):
            await self._note_baseline(frame)
            self._pend(frame, scene_s, Phase.CARRIED, "not_due", timings)
            return
        gated = await self._tools.pools.image.run(lambda: self._gate.look(frame.image, scene_s))
        timings = replace(timings, gate_ms=(self._tools.clock.now_s() - started_s) * 1000)
        await self._note_baseline(frame)
        if not gated.keep:
            self._pend(frame, scene_s, Phase.CARRIED, gated.reason, timings)
            return
        self._pend(frame, scene_s, Phase.ANALYSING, gated.reason, timings)
        displaced = await self._work.send(_Work(frame, gated, scene_s))
        if displaced is not None:
            self._resolver.update(displaced.frame.key, phase=Phase.CARRIED, reason="detector_busy")
            self._kick.set()

    async def _note_baseline(self, frame: Frame) -> None:
        if frame.key.seq % BASELINE_EVERY == 0:
            self.board.jpeg_sample(await self._tools.pools.image.run(lambda: baseline_bytes(frame)))

    def _pend(self, frame: Frame, scene_s: float, phase: Phase, reason: str, timings: FrameTimings) -> None:
        self._resolver.admit(
            Pending(
                key=frame.key,
                size=frame.size,
                captured_at_s=frame.captured_at_s,
                scene_s=scene_s,
                media_ms=frame.media_ms,
                deadline_s=frame.captured_at_s + self._settings.deadline_ms / 1000,
                phase=phase,
                reason=reason,
                timings=timings,
            )
        )
        self._kick.set()

    # detect and offload

    async def _detect(self) -> None:
        while True:
            try:
                work = await self._work.receive()
            except Closed:
                return
            await self._analyse(work)

    async def _analyse(self, work: _Work) -> None:
        key, clock = work.frame.key, self._tools.clock
        pending = self._resolver.get(key)
        if pending is None:
            return  # settled by the clock while it waited
        started_s = clock.now_s()
        if started_s + self._edge_ms.mean_ms / 1000 > pending.deadline_s - self._tools.settle_margin_s:
            self._settle(key, Origin.CARRIED, "edge_late", phase=Phase.CARRIED)
            return
        found = await self._tools.pools.model.run(lambda: self._look(work.frame))
        entry = self._tracker.observe(key.seq, work.scene_s, found)
        edge_ms = (clock.now_s() - started_s) * 1000
        self._edge_ms = self._edge_ms.add(edge_ms)
        wait_ms = (started_s - work.frame.captured_at_s) * 1000 - (pending.timings.gate_ms or 0.0)
        timings = replace(pending.timings, edge_ms=edge_ms, wait_ms=max(0.0, wait_ms))
        self._newest_image = (key, work.frame)
        if not self._resolver.update(key, timings=timings):
            return
        decision = self._decide(entry, work, pending)
        if decision.kind == "none":
            shed = decision.wanted and decision.reason not in _UNREACHABLE
            self._settle(key, Origin.EDGE_SHED if shed else Origin.EDGE, decision.reason)
            return
        await self._ask(work, decision, timings)

    def _look(self, frame: Frame) -> Detections:
        """Run the small model on the region of interest. CPU work."""
        region = self._gate.fit(frame.size)
        x, y, w, h = region.window.x, region.window.y, region.window.width, region.window.height
        low = self._settings.tracker.low_score
        found = self._tools.detector.detect([frame.image[y : y + h, x : x + w]], low)[0]
        if x or y:
            found = found.with_boxes(found.xyxy + np.array([x, y, x, y], np.float32))
        return self._wanted(region.keep(found))

    def _wanted(self, found: Detections) -> Detections:
        objects = self._settings.objects
        if not objects or not len(found):
            return found
        return found.select([str(label) in objects for label in found.label])

    def _decide(self, entry: Entry, work: _Work, pending: Pending) -> OffloadDecision:
        outlook: Outlook = self._tools.uplink.outlook(self._settings.offload.tail_deviations)
        now_s = self._tools.clock.now_s()
        return self._policy.decide(
            OffloadView(
                candidates=candidates(entry, work.gated.motion, self._settings.candidates),
                remaining_ms=(pending.deadline_s - self._tools.settle_margin_s - now_s) * 1000,
                round_trip_ms=outlook.round_trip_ms,
                expected_bytes=self._expected_bytes,
                tokens_bytes=outlook.tokens_bytes,
                offloads=self._offloads,
                reachable=outlook.reachable,
                unreachable_reason=outlook.reason,
            )
        )

    async def _ask(self, work: _Work, decision: OffloadDecision, timings: FrameTimings) -> None:
        key, size, clock = work.frame.key, work.frame.size, self._tools.clock
        started_s = clock.now_s()
        layout, data = await self._tools.pools.image.run(lambda: self._draw(work.frame, decision))
        self._expected_bytes[decision.kind] = 0.7 * self._expected_bytes.get(decision.kind, len(data)) + 0.3 * len(data)
        timings = replace(timings, encode_ms=(clock.now_s() - started_s) * 1000)
        deadline_s = work.frame.captured_at_s + self._settings.deadline_ms / 1000
        changes = {"phase": Phase.ASKED, "reason": decision.reason, "timings": timings, "bytes_up": len(data)}
        if not self._resolver.update(key, **changes):
            return
        self._offloads += 1
        await self._tools.uplink.ask(
            Question(
                key=key,
                kind=decision.kind,
                frame_width=size.width,
                frame_height=size.height,
                crops=layout.crops,
                jpeg=data,
                settle_at_s=deadline_s - self._tools.settle_margin_s,
                weight=self._settings.weight,
            )
        )

    def _draw(self, frame: Frame, decision: OffloadDecision) -> tuple[Layout, bytes]:
        """Render and encode what is to be sent. CPU work."""
        images = self._settings.images
        if decision.kind == "frame":
            layout = whole_frame(frame.size, images.frame_width_px, images.frame_height_px)
            return layout, jpeg(render(frame.image, layout), images.frame_quality)
        regions = to_rects(crops(decision, self._settings.offload, frame.size), frame.size)
        layout = pack(regions, self._settings.mosaic)
        return layout, jpeg(render(frame.image, layout), images.mosaic_quality)

    # the cloud's answers

    def answered(self, answer: Answer) -> None:
        """Take in an answer, in time or late: correct the tracks, and settle the frame if it still waits."""
        question, reply = answer.question, answer.reply
        key = question.key
        parts = [to_frame(crop, found) for crop, found in zip(question.crops, reply.detections, strict=False)]
        cloud = merge_crops(parts)
        region = self._gate.fit(Size(question.frame_width, question.frame_height))
        cloud = self._wanted(region.keep(cloud))
        entry = self._tracker.entry(key.seq)
        if entry is not None and not (entry.seen.verdict != Verdict.UNSEEN).any():
            layout = Layout(Size(question.frame_width, question.frame_height), question.crops)
            self._tracker.correct(key.seq, fuse(entry.seen.detections, cloud, regions_xyxy(layout)))
        pending = self._resolver.get(key)
        if pending is None:
            self.board.counters["late_answers"] += 1
            return
        timings = replace(
            pending.timings,
            network_ms=answer.network_ms,
            cloud_queue_ms=reply.queue_ms,
            cloud_infer_ms=reply.infer_ms,
        )
        self._resolver.update(key, timings=timings, cloud_model=f"{reply.model}@{reply.model_version}")
        self._settle(key, Origin.CLOUD if question.kind == "frame" else Origin.FUSED, pending.reason)

    def not_answered(self, key: FrameKey, reason: str, *, shed: bool) -> None:
        """The cloud will not answer: the edge's own answer is final."""
        self._settle(key, Origin.EDGE_SHED if shed else Origin.EDGE, reason)

    def _settle(self, key: FrameKey, origin: Origin, reason: str, phase: Phase = Phase.SETTLED) -> None:
        now_s = self._tools.clock.now_s()
        if self._resolver.update(key, phase=phase, origin=origin, reason=reason, ready_at_s=now_s):
            self._kick.set()

    # resolve and publish

    async def _resolve(self) -> None:
        while not (self._captured_all and len(self._resolver) == 0):
            self._kick.clear()
            now_s = self._tools.clock.now_s()
            for settlement in self._resolver.due(now_s):
                await self._publish(settlement, now_s)
            self._room.set()
            if self._captured_all and len(self._resolver) == 0:
                return
            wake_at_s = self._resolver.wake_at_s()
            wait_s = None if wake_at_s is None else max(0.0, wake_at_s - self._tools.clock.now_s())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._kick.wait(), wait_s)

    async def _publish(self, settlement: Settlement, settled_at_s: float) -> None:
        pending = settlement.pending
        found = self._final_detections(pending)
        now_s = self._tools.clock.now_s()
        result = answers.build(
            pending,
            found,
            answers.Stamp(
                captured_at=wall_time() - timedelta(seconds=now_s - pending.captured_at_s),
                settled_at_s=settled_at_s,
                now_s=now_s,
                deadline_ms=self._settings.deadline_ms,
                edge_model=f"{self._tools.detector.name}@{self._tools.detector.version}",
            ),
        )
        self.board.ledger.final(pending.key, pending.origin)
        self.board.published(result, now_s)
        if self._newest_image is not None and self._newest_image[0] == pending.key:
            self.board.picture = Picture(self._newest_image[1].image, result)
        self._tools.outlet.record(result)
        if pending.origin is not Origin.CARRIED or self._settings.publish == "all":
            await self._tools.outlet.result(result)

    def _final_detections(self, pending: Pending) -> Detections:
        tracker, settings = self._tracker, self._settings.tracker
        entry = tracker.entry(pending.key.seq) if pending.origin is not Origin.CARRIED else None
        if entry is not None:
            found = analysed_answer(entry, pending.size, settings)
        else:
            found = carried_answer(*tracker.at(pending.scene_s), pending.size, settings)
        region = self._gate.region
        return region.keep(found) if region is not None else found
