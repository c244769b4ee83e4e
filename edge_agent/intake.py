"""First stage: take frames from the source, admit them, and decide which are analysed."""

import asyncio
import logging
from dataclasses import replace

from edge_agent.capture.base import Captured, Ended, StateChange, VideoSource
from edge_agent.context import Context, Work
from edge_agent.gate import BASELINE_EVERY, baseline_bytes
from edge_agent.region_of_interest import RegionError, RegionOfInterest
from edge_agent.resolve import FrameTimings, Pending, Phase
from pipeline.channels import Channel
from pipeline.frames import Frame, FrameKey
from pipeline.geometry import Size
from pipeline.results import CameraState, DropReason, Origin

_log = logging.getLogger(__name__)
STILLS_APART_S = 10.0


class Intake:
    """Carries a camera's frames from its source to the small model's door."""

    def __init__(self, context: Context, source: VideoSource, work: Channel[Work]) -> None:
        self._context, self._source, self._work = context, source, work
        self._size: Size | None = None
        self._misfit = ""
        self._baseline: asyncio.Task[None] | None = None

    async def run(self) -> Ended | None:
        """Take frames until the source ends; returns how it ended (None: it was closed)."""
        try:
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
        finally:
            if self._baseline is not None:
                self._baseline.cancel()

    def _ended(self, ended: Ended) -> Ended:
        """Book what was lost at the very end. A source whose frames the region did not fit has not simply finished."""
        self._never_seen(ended.lost_before, ended.unusable_before)
        if self._misfit and ended.state is CameraState.FINISHED:
            return Ended(CameraState.INVALID_INPUT, self._misfit)
        return ended

    async def _admit(self, event: Captured) -> None:
        context = self._context
        ledger = context.board.ledger
        self._never_seen(event.lost_before, event.unusable_before)
        key = FrameKey(context.name, context.tools.epoch, event.seq)
        frame = Frame(key, event.image, event.captured_at_s, event.media_ms)
        ledger.capture(key)
        context.board.captured(event.captured_at_s)
        misfit_before = self._misfit
        region = await self._fit(frame.size)
        if region is None:
            ledger.drop(key, DropReason.UNUSABLE)
            await context.went(CameraState.INVALID_INPUT, self._misfit)
            return
        if misfit_before:
            await context.went(CameraState.LIVE, "the region of interest fits the frames again")
        if not self._source.live:
            await self._wait_for_room(context.tools.frames_in_flight)
        await self._sample(frame, region)

    def _never_seen(self, lost: int, unusable: int) -> None:
        for count, reason in ((lost, DropReason.OVERWRITTEN), (unusable, DropReason.UNUSABLE)):
            if count:
                self._context.board.ledger.never_seen(count, reason)

    async def _fit(self, size: Size) -> RegionOfInterest | None:
        """The region of interest for frames of this size, None where it does not fit; what was cut off is said once.

        Frames of another size wait until the answers of those before are out, and start with new tracks.
        """
        context = self._context
        if size != self._size:
            await self._wait_for_room(1)
            if self._size is not None:
                context.start_anew()
        try:
            region = context.gate.fit(size)
        except RegionError as fault:
            self._misfit = str(fault)
            return None
        if size != self._size and region.warning:
            _log.warning("camera %s: %s", context.name, region.warning)
        self._size, self._misfit = size, ""
        return region

    async def _wait_for_room(self, frames: int) -> None:
        """Hold the source back while so many frames are under way (a flow limiter)."""
        context = self._context
        while len(context.resolver) >= frames:
            context.room.clear()
            await context.room.wait()

    def _scene_s(self, frame: Frame) -> float:
        """Time for sampling and tracking: a file's own, else that of capture. Stills are so far apart that no track
        outlives its picture.
        """
        if self._source.stills:
            return frame.key.seq * STILLS_APART_S
        file_like = not self._source.live or self._context.settings.capture.realtime
        return frame.media_ms / 1000 if file_like and frame.media_ms is not None else frame.captured_at_s

    async def _sample(self, frame: Frame, region: RegionOfInterest) -> None:
        context, scene_s = self._context, self._scene_s(frame)
        started_s = context.tools.clock.now_s()
        timings = FrameTimings(wait_ms=(started_s - frame.captured_at_s) * 1000)
        self._note_baseline(frame)
        if not (self._source.stills or context.gate.due(scene_s, context.levers.sample_fps_most)):
            self._pend(frame, scene_s, Phase.CARRIED, "not_due", timings)
            return
        # Admitted before the gate looks, so that the clock settles it (as edge_late) also where the gate is slow.
        self._pend(frame, scene_s, Phase.ANALYSING, "edge_late", timings)
        gated = await context.tools.pools.image.run(lambda: context.gate.look(frame.image, scene_s))
        timings = replace(timings, gate_ms=(context.tools.clock.now_s() - started_s) * 1000)
        context.resolver.update(frame.key, reason=gated.reason, timings=timings)
        if gated.keep or self._source.stills:
            displaced = await self._work.send(Work(frame, region, gated, scene_s))
            if displaced is not None:
                context.settle(displaced.frame.key, Origin.CARRIED, "detector_busy")
        else:
            context.resolver.update(frame.key, accepted=False)
            context.settle(frame.key, Origin.CARRIED, gated.reason)

    def _note_baseline(self, frame: Frame) -> None:
        """Now and then learn beside the frame's path what it would take as JPEG; left out while the last is at it."""
        if frame.key.seq % BASELINE_EVERY == 0 and (self._baseline is None or self._baseline.done()):
            self._baseline = asyncio.create_task(self._measure_baseline(frame), name=f"{self._context.name}/baseline")

    async def _measure_baseline(self, frame: Frame) -> None:
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
                accepted=phase is Phase.ANALYSING,
            )
        )
        self._context.changed.set()
