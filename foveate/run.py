"""The all-in-one run: broker, worker, agent and status page, from start to summary."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import threading
import webbrowser
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cv2
from rich.console import Console

from edge_agent.agent import Agent, Links
from edge_agent.capture.base import VideoSource
from edge_agent.capture.open import open_source
from edge_agent.capture.settings import CaptureSettings
from edge_agent.pools import Pools
from edge_agent.publish import BACKLOG_BYTES, Publisher, RecordFile, RecordWriter
from edge_agent.status_source import AgentStatusSource
from foveate import summary
from foveate.broker import EmbeddedBroker
from foveate.children import Meter, WorkerOrder, WorkerProcess, keep_alive
from foveate.edge_models import load_edge_models
from foveate.learn.beside import Learning, learning, trusting_itself
from foveate.outputs import check_writable, write_summary
from foveate.plan import Outputs, Plan
from foveate.progress import Progress
from foveate.shaper import NetworkShaper
from pipeline.errors import ConfigError, FoveateError, ModelError
from pipeline.results import CameraState
from pipeline.timing import MonotonicClock
from pipeline.transport.backoff import Backoff
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings

_log = logging.getLogger(__name__)
WAIT_FOR_CLOUD_S = 10.0
STOP_LIMIT_S = 3.0
MEASURE_EVERY_S = 3.0
SAME_WISH_S = 0.1
STAGE_FAILED, SOURCE_FAILED = 1, 3
_FAILED_STATES = frozenset({CameraState.INVALID_INPUT, CameraState.UNSUPPORTED_CODEC, CameraState.AUTH_FAILED})


class Run:
    """One run of a plan."""

    def __init__(self, plan: Plan, outputs: Outputs, console: Console) -> None:
        self._plan, self._outputs, self._console = plan, outputs, console
        self._clock = MonotonicClock()
        roles = ("agent", "worker", "broker", *(["network"] if plan.network is not None else []))
        self._meters = {role: Meter() for role in roles}
        self._broker: EmbeddedBroker | None = None
        self._worker: WorkerProcess | None = None
        self._shaper: NetworkShaper | None = None
        self._learning: Learning | None = None
        self._stopping = False

    async def go(self) -> int:
        """Run to the end; returns the exit code. Raises FoveateError before anything has started to run."""
        cv2.setNumThreads(1)  # the pools bring the parallelism
        check_writable(self._outputs.summary, "summary")
        self._plan = await asyncio.to_thread(trusting_itself, self._plan)
        agent: Agent | None = None
        try:
            with (
                _stopped_by_signals() as stop,
                _record_file(self._outputs.record) as record,
                contextlib.ExitStack() as children,
            ):
                await self._start_children(children)
                detector, light = await asyncio.to_thread(load_edge_models, self._plan)
                with Pools.threads() as pools:
                    links, settings = self._links(), self._plan.agent
                    agent = Agent(settings, detector, links, pools, self._clock, self._open, record, light)
                    self._learning = learning(self._plan, agent, links, self._clock, self._console)
                    return await self._serve(agent, stop)
        finally:  # a run that has failed has its account to give as well
            if agent is not None:
                self._finish(agent)

    async def _serve(self, agent: Agent, stop: asyncio.Event) -> int:
        """Run the agent with everything beside it; a fault that is one of ours comes out by itself."""
        try:
            async with self._around(agent):
                return await self._until_done(agent, stop)
        except ExceptionGroup as group:
            ours = _first_of_ours(group)
            if ours is None:
                raise
            raise ours from None

    def _open(self, capture: CaptureSettings) -> VideoSource:
        return open_source(capture, self._clock)

    async def _start_children(self, stack: contextlib.ExitStack) -> None:
        plan = self._plan
        if plan.embedded is not None:
            self._broker = EmbeddedBroker(plan.embedded.host, plan.embedded.port, plan.embedded.port_v3)
            stack.callback(self._broker.stop)
            await asyncio.to_thread(self._broker.start)
        if plan.network is not None:
            self._shaper = NetworkShaper(plan.network, plan.mqtt)
            stack.callback(self._shaper.stop)
            self._shaper.start()
        if plan.worker is not None:
            self._worker = WorkerProcess(WorkerOrder(plan.worker, plan.mqtt, plan.models_dir))
            stack.callback(self._worker.stop)
            self._worker.start()

    def _links(self) -> Links:
        settings = self._plan.mqtt if self._shaper is None else self._shaper.settings()
        # Our own broker on this machine may be asked often; others not.
        backoff = Backoff(first_s=0.5, most_s=2.0, spread=1.0) if self._plan.embedded else Backoff()
        agent = self._plan.agent.agent
        quiet = replace(_named(settings, agent, "control"), backlog_bytes=BACKLOG_BYTES)
        control = MqttTransport(quiet, will=Publisher.will(agent), backoff=backoff)
        return Links(
            MqttTransport(_named(settings, agent, "bulk"), backoff=backoff),
            control,
            lambda: MqttTransport(_named(settings, agent, "file"), backoff=backoff),
        )

    @contextlib.asynccontextmanager
    async def _around(self, agent: Agent) -> AsyncIterator[None]:
        """Page, progress, measuring and care for the children, beside the agent."""
        async with asyncio.TaskGroup() as beside:
            tasks = [beside.create_task(self._sample(agent), name="meter")]
            if self._broker is not None:
                tasks.append(beside.create_task(keep_alive("broker", self._broker, self._clock, lambda: False)))
            if self._shaper is not None:
                tasks.append(beside.create_task(keep_alive("network shaper", self._shaper, self._clock, lambda: False)))
            if self._worker is not None:
                retire = partial(self._worker_is_hopeless, agent)
                tasks.append(beside.create_task(keep_alive("worker", self._worker, self._clock, retire)))
            if self._learning is not None:
                tasks.append(beside.create_task(self._learning.run(), name="learning"))
            if self._plan.web.enabled:
                tasks.append(beside.create_task(self._serve_page(agent), name="page"))
            tasks.append(beside.create_task(Progress(self._console, agent.cameras).run(), name="progress"))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _worker_is_hopeless(self, agent: Agent) -> bool:
        """Whether the worker refuses its model or configuration, and would refuse it again, or is to stop.

        Raises what it refuses where it has never served: a run is not begun on a mistake.
        """
        if self._stopping:
            return True
        code = self._worker.exit_code if self._worker is not None else None
        fault = {kind.exit_code: kind for kind in (ConfigError, ModelError)}.get(code or 0)
        if fault is None:
            return False
        if not agent.uplink.workers.all():
            raise fault("the worker cannot start; its own words stand above.")
        _log.error("the worker has given up (its own words stand above); the edge answers alone")
        return True

    async def _serve_page(self, agent: Agent) -> None:
        # Half a second of CPU time that a run without a page does not need.
        from edge_agent.status.app import create_app
        from edge_agent.status.server import serve as serve_page

        web, plan = self._plan.web, self._plan
        broker = f"{plan.mqtt.host}:{plan.mqtt.port}" + (" (embedded)" if plan.embedded else "")
        broker += f" over the modelled network {plan.network.profile}" if plan.network else ""
        learns = None if self._learning is None else self._learning.service
        source = AgentStatusSource(agent, broker, version("foveate"), self._clock, learns)

        def listening(port: int) -> None:
            address = f"http://{web.access.host}:{port}/"
            self._console.print(f"status page  [link={address}]{address}[/link]")
            if self._outputs.open_browser and _has_display():
                # A browser of the terminal would hold everything up until it is left.
                threading.Thread(target=_open_browser, args=[address], daemon=True, name="browser").start()

        await serve_page(create_app(source, web.access, self._clock), web.access.host, web.port, listening)

    async def _until_done(self, agent: Agent, stop: asyncio.Event) -> int:
        """Run the agent until its sources end or a signal comes; whatever ends it, it may say goodbye."""
        wait_s = WAIT_FOR_CLOUD_S if self._plan.worker is not None else 2.0
        running = asyncio.create_task(agent.run(wait_s), name="agent")
        stopping = asyncio.create_task(stop.wait(), name="signals")
        try:
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            self._measure(agent)
            self._stopping = True
            if self._worker is not None:
                self._worker.terminate()
            agent.stop()
            await asyncio.wait([running], timeout=STOP_LIMIT_S)
        if not running.done():
            _log.warning("the agent did not stop within %.0f s", STOP_LIMIT_S)
            running.cancel()
            return 0
        states = {end.state for end in running.result().values() if end is not None}
        if CameraState.OFFLINE in states:
            return STAGE_FAILED
        return SOURCE_FAILED if states & _FAILED_STATES else 0

    async def _sample(self, agent: Agent) -> None:
        while True:
            self._measure(agent)
            await asyncio.sleep(MEASURE_EVERY_S)

    def _measure(self, agent: Agent) -> None:
        readers = [pid for camera in agent.cameras for pid in camera.source.process_ids]
        self._meters["agent"].sample_self(readers)
        for role, child in (("worker", self._worker), ("broker", self._broker), ("network", self._shaper)):
            if child is not None and child.pid is not None:
                self._meters[role].sample([child.pid])

    def _finish(self, agent: Agent) -> None:
        usage = {role: meter.usage() for role, meter in self._meters.items()}
        result = summary.summary(agent.cameras, usage, agent.counters(), agent.record_fault, self._plan.network)
        try:
            if self._outputs.summary is not None:
                write_summary(self._outputs.summary, result)
        finally:
            summary.show(result, self._console)
            if self._learning is not None:
                self._learning.service.part()


def _named(settings: MqttSettings, agent: str, role: str) -> MqttSettings:
    """Settings under a client id that no other session has: a broker ends the older of two of one name."""
    return replace(settings, client_id=f"{settings.client_id or agent}-{role}-{secrets.token_hex(3)}")


def _open_browser(address: str) -> None:
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(address)


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or os.name == "nt"


def _first_of_ours(group: BaseExceptionGroup[Any]) -> FoveateError | None:
    """The first fault in a group, at any depth, that was raised on purpose."""
    for error in group.exceptions:
        found = _first_of_ours(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, FoveateError):
            return found
    return None


@contextlib.contextmanager
def _record_file(path: Path | None) -> Iterator[RecordWriter | None]:
    check_writable(path, "record")
    if path is None:
        yield None
        return
    file = path.open("wb", buffering=0)
    record = RecordWriter(RecordFile(file).write)
    try:
        yield record
    finally:
        try:
            file.close()
        except OSError as error:  # the last word of a network file system
            record.failed(error, lines=1)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[asyncio.Event]:
    """An event that the first SIGINT or SIGTERM sets; a later one ends the process at once, also where it blocks.

    One that follows within a moment is the same wish: ``timeout`` and some shells tell a process and its group.
    """
    loop, stop, clock = asyncio.get_running_loop(), asyncio.Event(), MonotonicClock()
    first_s: list[float] = []

    def on_signal(number: int, _frame: object) -> None:
        if not first_s:
            first_s.append(clock.now_s())
            loop.call_soon_threadsafe(stop.set)
        elif clock.now_s() - first_s[0] > SAME_WISH_S:
            os._exit(128 + number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
