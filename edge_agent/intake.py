"""First stage: take frames from the source, admit them, and decide which are analysed."""

import logging
from dataclasses import replace

from edge_agent.capture.base import Captured, Ended, StateChange, VideoSource
from edge_agent.context import Context, Work
from edge_agent.gate import BASELINE_EVERY, baseline_bytes
from edge_agent.region_of_interest import RegionError, RegionOfInterest
from edge_agent.resolve import FrameTimings, Pending, Phase
from pipeline.channels import Channel
from pipeline.frames import Frame, FrameKey
from pipeline.results import CameraState, DropReason, Origin

_log = logging.getLogger(__name__)


class Intake:
    """Carries a camera's frames from its source to the small model's door."""

    def __init__(self, context: Context, source: VideoSource, work: Channel[Work]) -> None:
        self._context, self._source, self._work = context, source, work
        self._region: RegionOfInterest | None = None
        self._misfit = ""

    async def run(self) -> Ended | None:
        """Take frames until the source ends; returns how it ended (None: it was closed)."""
        async for event in self._source.events():
            if isinstance(event, Captured):
                await self._admit(event)
            elif isinstance(event, StateChange):
                await self._context.went(event.state, event.reason)
            else:
                ended = self._ended(event)
                await self._context.went(ended.state, ended.reason)
                return ended
        return None

    def _ended(self, ended: Ended) -> Ended:
        """A source whose frames the region did not fit has not simply finished."""
        if self._misfit and ended.state is CameraState.FINISHED:
            return Ended(CameraState.INVALID_INPUT, self._misfit)
        return ended

    async def _admit(self, event: Captured) -> None:
        context = self._context
        ledger = context.board.ledger
        ledger.never_seen(event.lost_before, DropReason.OVERWRITTEN)
        ledger.never_seen(event.unusable_before, DropReason.UNUSABLE)
        key = FrameKey(context.name, context.tools.epoch, event.seq)
        frame = Frame(key, event.image, event.captured_at_s, event.media_ms)
        ledger.capture(key)
        context.board.captured(event.captured_at_s)
        misfit_before = self._misfit
        if not self._fits(frame):
            ledger.drop(key, DropReason.UNUSABLE)
            await context.went(CameraState.INVALID_INPUT, self._misfit)
            return
        if misfit_before:
            await context.went(CameraState.LIVE, "the region of interest fits the frames again")
        await self._make_room()
        await self._sample(frame)

    def _fits(self, frame: Frame) -> bool:
        """Whether the region of interest can be bound to the frame's size; what had to be cut off is said once."""
        try:
            region = self._context.gate.fit(frame.size)
        except RegionError as fault:
            self._misfit = str(fault)
            return False
        self._misfit = ""
        if region is not self._region and region.warning:
            _log.warning("camera %s: %s", self._context.name, region.warning)
        self._region = region
        return True

    async def _make_room(self) -> None:
        """Hold a source that is not live back while enough frames are under way (a flow limiter)."""
        context = self._context
        while not self._source.live and len(context.resolver) >= context.tools.frames_in_flight:
            context.room.clear()
            await context.room.wait()

    def _scene_s(self, frame: Frame) -> float:
        """Time for sampling and tracking: a file's own, else that of capture."""
        file_like = not self._source.live or self._context.settings.capture.realtime
        return frame.media_ms / 1000 if file_like and frame.media_ms is not None else frame.captured_at_s

    async def _sample(self, frame: Frame) -> None:
        context, scene_s = self._context, self._scene_s(frame)
        started_s = context.tools.clock.now_s()
        timings = FrameTimings(wait_ms=(started_s - frame.captured_at_s) * 1000)
        if not context.gate.due(scene_s):
            self._pend(frame, scene_s, Phase.CARRIED, "not_due", timings)
            await self._note_baseline(frame)
            return
        # Admitted before the gate looks, so that the clock settles it (as edge_late) also where the gate is slow.
        self._pend(frame, scene_s, Phase.ANALYSING, "edge_late", timings)
        gated = await context.tools.pools.image.run(lambda: context.gate.look(frame.image, scene_s))
        timings = replace(timings, gate_ms=(context.tools.clock.now_s() - started_s) * 1000)
        context.resolver.update(frame.key, reason=gated.reason, timings=timings)
        if gated.keep:
            displaced = await self._work.send(Work(frame, gated, scene_s))
            if displaced is not None:
                context.settle(displaced.frame.key, Origin.CARRIED, "detector_busy")
        else:
            context.settle(frame.key, Origin.CARRIED, gated.reason)
        await self._note_baseline(frame)

    async def _note_baseline(self, frame: Frame) -> None:
        if frame.key.seq % BASELINE_EVERY == 0:
            self._context.board.jpeg_sample(await self._context.tools.pools.image.run(lambda: baseline_bytes(frame)))

    def _pend(self, frame: Frame, scene_s: float, phase: Phase, reason: str, timings: FrameTimings) -> None:
        self._context.resolver.admit(
            Pending(
                key=frame.key,
                size=frame.size,
                captured_at_s=frame.captured_at_s,
                scene_s=scene_s,
                media_ms=frame.media_ms,
                deadline_s=frame.captured_at_s + self._context.deadline_ms / 1000,
                phase=phase,
                reason=reason,
                timings=timings,
            )
        )
        self._context.changed.set()
