"""The real agent and the real worker on virtual time: real decisions on real pictures, with measured service times.

Everything runs as in production but for three things: a piece of work takes the time that was measured for its kind
instead of the time that it takes now, the broker is in memory, and the network between them is a model. So a run
depends on its seed alone, a minute of video takes seconds, and a busy machine cannot spoil a figure. What the event
loop itself needs (tracking, decisions, messages: about 2 ms per analysed frame) takes no time here.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from cloud_worker.figures import WorkerStatistics
from cloud_worker.service import Runners, WorkerService
from cloud_worker.settings import WorkerSettings
from edge_agent.agent import Agent, Links
from edge_agent.capture.settings import CaptureSettings
from edge_agent.gate import Gated
from edge_agent.pools import Pools
from edge_agent.releases.judging import JudgingSettings
from edge_agent.releases.slot import Staged
from edge_agent.settings import AgentSettings, CameraSettings, UplinkSettings
from foveate.bench.playlist import Playlist
from foveate.bench.service_times import ServiceTimes
from foveate.bench.virtual_parts import Counted, Kept, Remembering, Show, Slots, Timed
from foveate.config.settings import for_sources, plan
from pipeline.detectors.base import Detector
from pipeline.network.profiles import Profile
from pipeline.results import Result
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.base import Transport
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.transport.shaped import ShapedTransport

CAMERA = "camera"
STARTED = datetime.fromtimestamp(0, UTC)
"""Frames are named after the moment at which an agent began, and by their names some are drawn to be learned from."""


def default_camera(playlist: Playlist, deadline_ms: float | None = None) -> CameraSettings:
    """The product's default settings for a playlist, but for its objects, and the deadline where one is given."""
    camera = plan(for_sources(["synthetic:"])).agent.cameras[0]
    capture = CaptureSettings(playlist.name, realtime=True)
    camera = replace(camera, name=CAMERA, capture=capture, objects=playlist.labels)
    return camera if deadline_ms is None else replace(camera, deadline_ms=deadline_ms)


def default_uplink() -> UplinkSettings:
    """The product's default way to the cloud."""
    return plan(for_sources(["synthetic:"])).agent.uplink


def default_worker() -> WorkerSettings:
    """The product's default worker."""
    worker = plan(for_sources(["synthetic:"])).worker
    if worker is None:
        raise RuntimeError("the default plan has no worker")
    return worker


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is played, over which network, by which settings. ``network`` None: no time passes on the way."""

    playlist: Playlist
    camera: CameraSettings
    network: Profile | None = None
    seed: int = 0
    uplink: UplinkSettings = field(default_factory=default_uplink)
    worker: WorkerSettings = field(default_factory=default_worker)


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """The two models and what they take. Answers are remembered, so that a second run need not compute them again.

    ``own`` is the camera's own model, already promoted; the small model's time is then its.
    """

    small: Detector
    large: Detector
    times: ServiceTimes
    own: Staged | None = None

    @classmethod
    def remembering(cls, small: Detector, large: Detector, times: ServiceTimes) -> "Models":
        return cls(Remembering(small), Remembering(large), times)


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """What goes on beside a run: ``act`` is given the agent and the broker as they start, and is over with the run.

    ``look_s`` is what each look of a model takes that is not proven yet, and ``judging`` how it is judged.
    """

    act: Callable[[Agent, MemoryHub], Coroutine[Any, Any, None]]
    look_s: Callable[[], float]
    judging: JudgingSettings = field(default_factory=JudgingSettings)


@dataclass(frozen=True, slots=True, eq=False)
class VirtualRun:
    """What came of a run. ``captured_s`` when each frame was captured and ``started_s`` when the first one was.

    ``uplink_bytes`` are those of the pictures' session at the socket: payload, MQTT and TCP/IP headers; ``sent`` are
    its messages, each with its moment and bytes.
    """

    results: tuple[Result, ...]
    captured_s: dict[int, float]
    uplink_bytes: int
    counters: dict[str, int]
    worker: WorkerStatistics
    duration_s: float
    sent: tuple[tuple[float, int], ...]

    @property
    def record(self) -> dict[int, Result]:
        """The first result of each frame, by its number from 0."""
        first: dict[int, Result] = {}
        for result in self.results:
            first.setdefault(result.seq, result)
        return first


def play(scenario: Scenario, models: Models, beside: Beside | None = None) -> VirtualRun:
    """Run a scenario to its end. Raises what went wrong beside it."""
    return run_virtual(_Stage(scenario, models, beside).run())


class _Stage:
    """Agent, worker, hub and network of one run."""

    def __init__(self, scenario: Scenario, models: Models, beside: Beside | None) -> None:
        self._scenario, self._models, self._beside = scenario, models, beside
        self._rng = Random(scenario.seed)
        self._hub, self._record, self._show = MemoryHub(), Kept(), Show(scenario.playlist)

    async def run(self) -> VirtualRun:
        clock = LoopClock()
        bulk, control = self._sessions()
        counted, worker, beside = Counted(bulk), self._worker(), self._beside
        agent = self._agent(Links(counted, control), clock)
        serving = asyncio.create_task(worker.run(), name="worker")
        acting = None if beside is None else asyncio.create_task(beside.act(agent, self._hub), name="beside")
        started_s = clock.now_s()
        try:
            await agent.run(wait_for_cloud_s=5.0)
        finally:
            statistics = worker.statistics()
            worker.stop()
            await asyncio.wait([serving])
        serving.result()
        if acting is not None and not acting.cancel():
            acting.result()
        results = tuple(self._record.results)
        return VirtualRun(
            results,
            self._show.captured_s,
            counted.sent_bytes,
            agent.counters(),
            statistics,
            clock.now_s() - started_s,
            tuple(counted.sent),
        )

    def _agent(self, links: Links, clock: LoopClock) -> Agent:
        """The agent of the scenario's camera, which has promoted the model of its own where there is one."""
        scenario = self._scenario
        judging = JudgingSettings() if self._beside is None else self._beside.judging
        agent = Agent(
            AgentSettings("agent", (scenario.camera,), scenario.uplink, rollout=judging),
            self._models.small,
            links,
            self._pools(),
            clock,
            lambda _: self._show,
            self._record,
            started=STARTED,
        )
        if self._models.own is not None:
            for camera in agent.cameras:
                camera.slot.restore(None, self._models.own, None, None)
        return agent

    def _sessions(self) -> tuple[Transport, Transport]:
        plain = MemoryTransport(self._hub, name="bulk"), MemoryTransport(self._hub, name="control")
        network = self._scenario.network
        if network is None:
            return plain
        up, down = network.links(0.0)
        bulk, control = (ShapedTransport(session, up, down, LoopClock()) for session in plain)
        return bulk, control

    def _worker(self) -> WorkerService:
        settings, rng = self._scenario.worker, Random(self._scenario.seed + 1)
        model = Timed(self._models.large, self._models.times, rng)
        decode = self._models.times.decode
        runners = Runners(Slots(1, lambda _: model.last_s), Slots(1, lambda _: decode.draw_s(rng)))
        session = MemoryTransport(self._hub, name="worker")
        return WorkerService(settings, {settings.models[0].name: model}, session, LoopClock(), runners)

    def _pools(self) -> Pools:
        times, rng = self._models.times, self._rng

        def of_picture(result: object) -> float:
            """By what comes out: the gate's verdict, or a picture drawn and encoded."""
            return (times.gate if isinstance(result, Gated) else times.draw).draw_s(rng)

        beside = self._beside
        aside = None if beside is None else Slots(1, lambda _: beside.look_s())
        return Pools(Slots(2, of_picture), Slots(1, lambda _: times.edge.draw_s(rng)), aside)
