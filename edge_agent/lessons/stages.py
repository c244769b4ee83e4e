"""Two stages beside the others: one makes lessons of frames, one asks about whole frames for their sake."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from edge_agent.asking import question, undisturbed
from edge_agent.context import Context
from edge_agent.frame_work import draw, wanted
from edge_agent.lessons.followed import follow
from edge_agent.lessons.labels import Annotation, clean
from edge_agent.lessons.lesson import Lesson
from edge_agent.lessons.picture import conditions, into_picture, lasting, not_counted, shrink
from edge_agent.lessons.store import Added
from edge_agent.lessons.taking import LESSON_EPOCH, Moment, Open, Taking, Taught
from edge_agent.tracking.history import Entry
from pipeline.frames import FrameKey
from pipeline.geometry import Size
from pipeline.policies.lesson_pace import PaceView, look_hindrance
from pipeline.policies.offload import OffloadDecision
from pipeline.timing import wall_time

_WHOLE = OffloadDecision("frame", "lesson")
ANSWER_S = 1.0
"""So late may the answer come that no frame waits for."""
RETRY_S = 0.05
COUNT_EVERY_S = 10.0


def lesson_stages(context: Context) -> list[Coroutine[Any, Any, None]]:
    """What runs beside a camera's other stages where it learns."""
    taking = context.taking
    if taking is None:
        return []
    # Whoever reads a file as fast as it goes leaves no idle time on the way to the cloud.
    asks = context.settings.mode == "adaptive" and context.settings.privacy.whole_frames and not context.patient
    looks = [LessonLooks(context, taking).run()] if asks else []
    return [TakeLessons(context, taking).run(), *looks]


class TakeLessons:
    """Makes frames small, finds out what is known of them, and keeps them. All work is on the pool for pictures."""

    def __init__(self, context: Context, taking: Taking) -> None:
        self._context, self._taking = context, taking
        self._counted_at_s = float("-inf")
        self._began: datetime | None = None
        self._scene_s = 0.0

    async def run(self) -> None:
        """Take lessons until cancelled."""
        pool = self._context.tools.pools.image
        try:
            await self._take()
        finally:
            await pool.run(self._taking.store.close)

    async def _take(self) -> None:
        taking, pool = self._taking, self._context.tools.pools.image
        taking.overview = await pool.run(taking.store.overview)
        while True:
            await taking.wake.wait()
            taking.wake.clear()
            while (moment := taking.next_frame()) is not None:
                taking.opened(await pool.run(partial(_small, moment, taking)))
            while (finished := taking.next_finished()) is not None:
                await self._finish(*finished)

    async def _finish(self, lesson: Open, taught: Taught | None) -> None:
        context, taking = self._context, self._taking
        entry, entries = context.tracker.entry(lesson.key.seq), context.tracker.entries
        if entry is None or entry.at_s != lesson.scene_s or lesson.key.epoch != context.tools.epoch:
            taking.counters["forgotten"] += 1
            return
        taken_at = self._taken_at(lesson)
        added = await context.tools.pools.image.run(lambda: self._keep(lesson, taught, entry, entries, taken_at))
        if added is None:
            taking.counters["unclear"] += 1
        elif added.kept:
            await self._count()

    async def _count(self) -> None:
        tools = self._context.tools
        now_s = tools.clock.now_s()
        if now_s - self._counted_at_s >= COUNT_EVERY_S:
            self._counted_at_s = now_s
            self._taking.overview = await tools.pools.image.run(self._taking.store.overview)

    def _taken_at(self, lesson: Open) -> datetime:
        """When a frame was captured, in the site's zone. A file that is read as fast as can be has its own pace."""
        context = self._context
        age_s = context.tools.clock.now_s() - lesson.captured_at_s
        taken_at = wall_time().astimezone() - timedelta(seconds=age_s)
        if not context.patient:
            return taken_at
        if self._began is None or lesson.scene_s < self._scene_s:
            self._began = taken_at - timedelta(seconds=lesson.scene_s)
        self._scene_s = lesson.scene_s
        return self._began + timedelta(seconds=lesson.scene_s)

    def _keep(
        self, lesson: Open, taught: Taught | None, entry: Entry, entries: Sequence[Entry], taken_at: datetime
    ) -> Added | None:
        """Annotate a frame and keep it; None where that cannot be done clearly. CPU and disk work."""
        annotation = self._annotation(lesson, taught, entry, entries)
        if annotation is None:
            return None
        height, width = lesson.picture.shape[:2]
        window = lesson.region.window
        annotation = into_picture(annotation, window, Size(width, height))
        return self._taking.store.add(
            Lesson(
                camera=lesson.key.camera,
                taken_at=taken_at,
                picture=lesson.picture,
                window=Size(window.width, window.height),
                known=lasting(annotation.known, lesson.key.epoch),
                ignored=annotation.ignored,
                teacher=taught.teacher if taught is not None else self._taking.teacher,
                edge=lesson.edge,
                conditions=conditions(lesson.picture, taken_at.hour),
            )
        )

    def _annotation(
        self, lesson: Open, taught: Taught | None, entry: Entry, entries: Sequence[Entry]
    ) -> Annotation | None:
        settings, cleaning = self._context.settings, self._taking.cleaning
        if taught is None:
            return follow(entry, entries, lesson.motion, lesson.size, settings.tracker, cleaning)
        answer = wanted(taught.found, settings, lesson.region)
        annotation = clean(entry, entries, answer, lesson.size, cleaning)
        outside = not_counted(wanted(taught.found, settings, None), answer)
        return Annotation(annotation.known, np.concatenate([annotation.ignored, outside]))


class LessonLooks:
    """Asks about whole frames for the sake of lessons, where the way is idle and nobody else wants it."""

    def __init__(self, context: Context, taking: Taking) -> None:
        self._context, self._taking = context, taking
        self._asked_at_s: float | None = None
        self._asked, self._frame_bytes = 0, 0.0

    async def run(self) -> None:
        """Ask as frames come, until cancelled."""
        taking = self._taking
        while True:
            await self._woken()
            if taking.to_ask is not None and not self._in_the_way():
                moment, taking.to_ask = taking.to_ask, None
                await self._ask(moment)

    async def _woken(self) -> None:
        """Wait for a frame. One that is to be asked about waits until no other asks or may ask."""
        taking = self._taking
        if taking.to_ask is not None and not self._has_room():
            taking.to_ask = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if taking.to_ask is None else RETRY_S):
                await taking.may_ask.wait()
        taking.may_ask.clear()

    def _in_the_way(self) -> bool:
        context = self._context
        return not self._has_room() or context.resolver.asking or len(context.tools.uplink.main.waiting) > 0

    def _has_room(self) -> bool:
        """Whether it is time for a look, and nothing is held back or turned down."""
        taking, outlook = self._taking, undisturbed(self._context)
        if outlook is None or not self._context.whole_frames:
            return False
        now_s = self._context.tools.clock.now_s()
        view = PaceView(
            since_s=None if self._asked_at_s is None else now_s - self._asked_at_s,
            lessons=taking.overview.summary.lessons,
            fill=outlook.fill,
            rate_bytes_s=outlook.due_bytes_s,
            frame_bytes=self._frame_bytes,
        )
        return not look_hindrance(view, taking.settings.most_per_minute, taking.settings.uplink_share)

    async def _ask(self, moment: Moment) -> None:
        """Ask about a frame that has its answer, under a key of the question's own."""
        context, tools, frame = self._context, self._context.tools, moment.frame
        self._asked_at_s = tools.clock.now_s()
        drawn = await tools.pools.image.run(lambda: draw(frame, _WHOLE, context.settings))
        self._frame_bytes, self._asked = float(len(drawn[1])), self._asked + 1
        # Epochs count seconds and such looks come more rarely, so that no later run uses the number again.
        key = FrameKey(frame.key.camera, LESSON_EPOCH, frame.key.epoch + self._asked)
        self._taking.asked(key, frame.key)
        await tools.uplink.ask(question(context, frame, "frame", drawn, tools.clock.now_s() + ANSWER_S, key))


def _small(moment: Moment, taking: Taking) -> Open:
    frame, region = moment.frame, moment.region
    picture = shrink(frame.image, region.window, taking.settings)
    key, size = frame.key, frame.size
    return Open(key, frame.captured_at_s, moment.scene_s, picture, size, region, moment.motion, moment.edge)
