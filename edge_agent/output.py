"""Last stage: settle frames in order and in time, and publish their results."""

import asyncio
import contextlib
import logging
from datetime import timedelta

from edge_agent import answers
from edge_agent.board import Picture
from edge_agent.context import Context
from edge_agent.frame_work import answer
from edge_agent.resolve import Pending, Settlement
from edge_agent.revisions import Published, open_to_revision
from pipeline.detections import Detections
from pipeline.results import Origin, Result
from pipeline.timing import wall_time

_log = logging.getLogger(__name__)


class Output:
    """Carries a camera's frames from a settled answer, or the end of their time, to the outside; revised ones twice."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Publish until the source has ended and every frame has its answer."""
        context = self._context
        while True:
            context.changed.clear()
            now_s = context.tools.clock.now_s()
            for settlement in context.resolver.due(now_s):
                await self._publish(settlement, now_s)
            while (revised := context.recent.take_revised()) is not None:
                await self._revise(revised, context.tools.clock.now_s())
            context.room.set()
            if context.captured_all and len(context.resolver) == 0:
                return
            wake_at_s = context.resolver.wake_at_s()
            # A timer may fire a rounding error early; without a least wait this would then spin.
            wait_s = None if wake_at_s is None else max(0.001, wake_at_s - context.tools.clock.now_s())
            with contextlib.suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it can swallow a cancellation that comes with the event.
                async with asyncio.timeout(wait_s):
                    await context.changed.wait()

    async def _publish(self, settlement: Settlement, settled_at_s: float) -> None:
        context, pending = self._context, settlement.pending
        now_s = context.tools.clock.now_s()
        final = not (context.settings.revisions and open_to_revision(pending))
        stamp = self._stamp(pending, settled_at_s, now_s)
        result = answers.build(pending, self._detections(pending), stamp, final=final)
        context.board.ledger.final(pending.key, pending.origin)
        context.board.published(result, now_s, accepted=pending.accepted)
        if pending.accepted and context.board.looks.ended(pending.origin):
            _log.warning("camera %s: %s", context.name, context.remark)
        if pending.origin is not Origin.CARRIED or pending.bytes_up:
            context.recent.add(Published(pending, result, now_s))
        self._show(pending, result)
        context.tools.outlet.record(result)
        if pending.origin is not Origin.CARRIED or context.settings.publish == "all":
            await context.tools.outlet.result(result)

    async def _revise(self, before: Published, now_s: float) -> None:
        """Publish a frame again, which has ended before, if there is something new to be seen on it."""
        context, pending = self._context, before.pending
        if context.tracker.entry(pending.key.seq) is None:
            return  # forgotten since: there is nothing to tell
        stamp = self._stamp(pending, now_s, now_s)
        result = answers.revise(before.result, pending, self._detections(pending), stamp)
        if result is not None:
            context.board.counters["revisions"] += 1
            context.recent.add(Published(pending, result, now_s))
            context.tools.outlet.record(result)
            await context.tools.outlet.result(result)

    def _stamp(self, pending: Pending, settled_at_s: float, now_s: float) -> answers.Stamp:
        return answers.Stamp(
            captured_at=wall_time() - timedelta(seconds=now_s - pending.captured_at_s),
            settled_at_s=settled_at_s,
            now_s=now_s,
            deadline_ms=self._context.deadline_ms,
        )

    def _show(self, pending: Pending, result: Result) -> None:
        """Hand the kept picture, now that its answer is known, to the status page."""
        kept = self._context.to_show
        if kept is not None and kept.key == pending.key:
            self._context.board.picture, self._context.to_show = Picture(kept.image, result), None

    def _detections(self, pending: Pending) -> Detections:
        context = self._context
        entry = context.tracker.entry(pending.key.seq) if pending.origin is not Origin.CARRIED else None
        most_fps = context.levers.sample_fps_most
        found = answer(context.tracker, entry, pending.scene_s, pending.size, context.settings, most_fps)
        return context.wanted(found)
