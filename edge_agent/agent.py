"""The edge agent: all cameras, their way to the cloud and their results, as one coroutine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from edge_agent.board import LATE_COUNTERS, Board
from edge_agent.budget_watch import BudgetWatch
from edge_agent.camera import Camera
from edge_agent.capture.base import Ended
from edge_agent.context import Tools
from edge_agent.pools import Pools
from edge_agent.publish import Publisher, RecordWriter
from edge_agent.releases.rollouts import Rollouts
from edge_agent.releases.service import ReleaseService
from edge_agent.settings import AgentSettings, CameraSettings
from edge_agent.site_exit import SiteExit
from edge_agent.state_files import StateFiles
from edge_agent.supervision import OpenSource, run_to_end
from edge_agent.uplink import Uplink
from pipeline.detectors.base import Detector
from pipeline.detectors.labels import label_set
from pipeline.results import Result
from pipeline.timing import Clock, wall_time
from pipeline.transport.base import Transport


@dataclass(frozen=True, slots=True)
class Links:
    """The two MQTT sessions of an agent: pictures go up on ``bulk``, everything else passes on ``control``.

    ``more`` makes a further session for a while, in which released files come; None where there is no other way.
    """

    bulk: Transport
    control: Transport
    more: Callable[[], Transport] | None = None


class Agent:
    """One agent. ``run`` ends when every source has ended, or when it is cancelled."""

    def __init__(  # noqa: PLR0913 - what an agent is made of; the last three may be missing
        self,
        settings: AgentSettings,
        detector: Detector,
        links: Links,
        pools: Pools,
        clock: Clock,
        open_source: OpenSource,
        record: RecordWriter | None = None,
        light: Detector | None = None,
        started: datetime | None = None,
    ) -> None:
        self.settings, self.detector, self.light = settings, detector, light
        self.links, self.started = links, started or wall_time()
        self._clock, self._open_source, self._record = clock, open_source, record
        self._stop = asyncio.Event()
        self.recalled = asyncio.Event()
        """Set once everything is as it was before a restart."""
        self.publisher = Publisher(settings.agent, links.control)
        boards = {camera.name: _board(camera, self.started) for camera in settings.cameras}
        departures = {name: board.departures for name, board in boards.items()}
        self.site_exit = SiteExit(links.bulk, settings.cameras, departures)
        self.uplink = Uplink(settings.agent, settings.uplink, self.site_exit, links.control, clock)
        self.uplink.workers.expect(settings.uplink.model, label_set(detector.labels), self.uplink.counters)
        tools = self._tools(pools)
        self.cameras = [Camera(c, open_source(c.capture), tools, boards[c.name]) for c in settings.cameras]
        self._state = StateFiles(settings.state_dir, self.cameras)
        self.releases = ReleaseService(
            settings.releases,
            [camera.slot for camera in self.cameras],
            {camera.name: camera.group for camera in settings.cameras},
            settings.state_dir,
            links.control,
            links.more,
            clock,
        )
        rollouts = [camera.rollout for camera in self.cameras]
        self.rollouts = Rollouts(settings, rollouts, links.control, self.publisher)
        self.budget_watch = BudgetWatch(self.cameras, self.publisher, clock, light=light is not None)

    def _tools(self, pools: Pools) -> Tools:
        settings = self.settings
        return Tools(
            detector=self.detector,
            uplink=self.uplink,
            pools=pools,
            outlet=self,
            clock=self._clock,
            epoch=int(self.started.timestamp()),
            settle_margin_s=settings.settle_margin_ms / 1000,
            frames_in_flight=settings.frames_in_flight,
            sure_score=settings.uplink.min_score,
            light=self.light,
            judging=settings.rollout,
            lessons_dir=None if settings.state_dir is None else settings.state_dir / "lessons",
        )

    async def result(self, result: Result) -> None:
        await self.publisher.result(result)

    def record(self, result: Result) -> None:
        if self._record is not None:
            self._record.add(result)

    async def state(self, camera: str, board: Board) -> None:
        await self.publisher.state(camera, board.state, board.reason, board.since)

    async def run(self, wait_for_cloud_s: float = 0.0) -> dict[str, Ended | None]:
        """Serve all cameras; returns how each source ended.

        Cameras start once the sessions are up and a worker has announced itself, or after ``wait_for_cloud_s`` all
        the same: a missing cloud never keeps the edge from starting.
        """
        helpers = [self.links.bulk.run(), self.links.control.run(), self.publisher.run(), self.uplink.run()]
        helpers += [
            self.site_exit.tell(),
            self.budget_watch.run(),
            self._state.run(),
            self.releases.run(),
            self.rollouts.run(),
        ]
        if self._record is not None:
            helpers.append(self._record.run())
        await self._state.recall()
        await self.releases.recall()
        await self.rollouts.recall()
        self.recalled.set()
        async with _background(helpers) as background:
            for camera in self.cameras:
                await self.state(camera.name, camera.board)
            try:
                await self._wait_for_cloud(wait_for_cloud_s)
                return await self._run_cameras(background)
            finally:  # a session that ends properly sends no will
                await self._say_goodbye()
                await self._state.save()
                await self.releases.save()
                await self.rollouts.save()

    async def _run_cameras(self, background: list[asyncio.Task[None]]) -> dict[str, Ended | None]:
        running = {
            asyncio.create_task(run_to_end(c, self._open_source, self._clock), name=c.name): c.name
            for c in self.cameras
        }
        ends: dict[str, Ended | None] = {}
        waiting: set[asyncio.Task[Ended | None]] = set(running)
        stop = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            while waiting and not stop.done():
                done, _ = await asyncio.wait([*waiting, *background, stop], return_when=asyncio.FIRST_COMPLETED)
                for helper in background:
                    if helper in done:
                        helper.result()  # a helper never ends by itself: this raises what ended it
                        raise RuntimeError(f"{helper.get_name()} ended unexpectedly")
                finished = waiting & done
                for ended in finished:
                    ends[running[ended]] = ended.result()
                waiting -= finished
        finally:
            stop.cancel()
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return ends

    def counters(self) -> dict[str, int]:
        """Events since the start that are not the end of a frame, by kind."""
        record_lost = self._record.lost if self._record is not None else 0
        return {
            **{f"uplink_{kind}": count for kind, count in self.uplink.counters.items()},
            **{f"pictures_{kind}": count for kind, count in self.site_exit.counters.items()},
            **{f"publish_{kind}": count for kind, count in self.publisher.counters.items()},
            **self.budget_watch.counters,
            **self._state.faults,
            **self.releases.counters,
            **self.rollouts.counters,
            "record_lost": record_lost,
            "ignored_messages": self.links.bulk.state.ignored + self.links.control.state.ignored,
            **{kind: sum(c.board.counters[kind] for c in self.cameras) for kind in LATE_COUNTERS},
            # Not every detector has rows, nor every source a decoder.
            "suspect_rows": getattr(self.detector, "suspect_rows", 0),
            "decoder_lines": sum(getattr(c.source, "noise_lines", 0) for c in self.cameras),
        }

    @property
    def record_fault(self) -> str:
        """Why the record lacks results; empty where it lacks none."""
        return self._record.fault if self._record is not None else ""

    def stop(self) -> None:
        """Let ``run`` end soon and properly: frames under way are counted as stopped, the broker is told."""
        self._stop.set()

    async def _wait_for_cloud(self, most_s: float) -> None:
        deadline_s = self._clock.now_s() + most_s
        while self._clock.now_s() < deadline_s and not self._stop.is_set():
            if self.uplink.served():
                return
            await asyncio.sleep(0.05)

    async def _say_goodbye(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self.publisher.goodbye([c.name for c in self.cameras if c.ended is None])


def _board(camera: CameraSettings, now: datetime) -> Board:
    return Board(now, camera.budget.budgets(camera.deadline_ms), camera.budget.sla.within_ms)


@contextlib.asynccontextmanager
async def _background(coroutines: Sequence[Coroutine[Any, Any, None]]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run coroutines beside the body; they are cancelled and awaited when it ends."""
    tasks = [asyncio.create_task(coroutine, name=f"agent/{number}") for number, coroutine in enumerate(coroutines)]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
