"""A real agent with a real worker on site and one in the cloud, on virtual time: scripted pictures and models.

The broker is on site, and the modelled network lies before the cloud worker. Every analysed frame is asked about. The
worker on site can lose its power: what is under way to or from it is lost, and nobody is told.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from cloud_worker.announce import offline
from cloud_worker.service import Runners, WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from edge_agent.agent import Agent, Links
from edge_agent.candidates import CandidateSettings
from edge_agent.capture.base import Captured, CaptureEvent, Ended, StateChange
from edge_agent.capture.settings import CaptureSettings
from edge_agent.pools import Pools
from edge_agent.settings import AgentSettings, CameraSettings, UplinkSettings
from foveate.bench.tier_world import CLOUD, EDGE, Character
from foveate.bench.virtual_parts import Kept, Slots
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.network.profiles import profile
from pipeline.policies.offload import OffloadSettings
from pipeline.results import CameraState, Result
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.base import Handler, Message, Outgoing, PublishStatus, SessionState, Transport
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.transport.shaped import ShapedTransport
from pipeline.wire import topics
from pipeline.wire.codec import decode_echo

MODEL, LABEL = "large", "person"
_SIZE = (320, 240)
_BOX = (100.0, 60.0, 160.0, 200.0)
_REQUESTS = f"{topics.WIRE}/req/"
_GATE_S, _LOOK_S = 0.004, 0.02


@dataclass(frozen=True, slots=True)
class World:
    """What is played: ``per_s`` frames a second for ``duration_s``, over a network of the protocol to the cloud.
    ``dies_s`` after the first frame the worker on site loses its power, and has it again ``back_s`` after that.
    """

    network: str
    seed: int
    uplink: UplinkSettings
    duration_s: float
    per_s: float = 12.5
    dies_s: float = float("inf")
    back_s: float = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What came of it. ``captured_s`` counts from the first frame, by number; ``asked_s`` are the moments at which the
    worker on site took a request in.
    """

    results: tuple[Result, ...]
    captured_s: dict[int, float]
    counters: dict[str, int]
    asked_s: tuple[float, ...]


class Seeing:
    """A model that sees one person, always in the same place, with a given score."""

    def __init__(self, name: str, score: float) -> None:
        self.name, self.version, self.labels = name, "1", (LABEL,)
        self._score = score

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        found = Detections.of([_BOX], [self._score], [LABEL]) if self._score >= min_score else Detections.none()
        return [found for _ in images]


class Powered:
    """Implements ``Transport``: a session of a machine that can lose its power. Then nothing passes either way."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.on = True
        self.asked_s: list[float] = []
        self.on_connect, self.run, self.wait_connected = inner.on_connect, inner.run, inner.wait_connected
        self.unsubscribe = inner.unsubscribe

    @property
    def state(self) -> SessionState:
        return self._inner.state

    def subscribe(self, topic_filter: str, handler: Handler, qos: int = 0) -> None:
        def come(message: Message) -> None:
            if not self.on:
                return
            if message.topic.startswith(_REQUESTS) and decode_echo(message.payload) is None:
                self.asked_s.append(LoopClock().now_s())
            handler(message)

        self._inner.subscribe(topic_filter, come, qos)

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        return await self._inner.publish(outgoing) if self.on else PublishStatus.SENT


@dataclass(slots=True, eq=False)
class Pictures:
    """A live source of noise, no two pictures alike."""

    world: World
    captured_s: dict[int, float] = field(default_factory=dict)
    first_s: float = 0.0
    began: asyncio.Event = field(default_factory=asyncio.Event)
    live: bool = True
    stills: bool = False
    total_frames: int | None = None
    process_ids: tuple[int, ...] = ()

    async def events(self) -> AsyncIterator[CaptureEvent]:
        loop, rng = asyncio.get_running_loop(), np.random.default_rng(self.world.seed)
        self.first_s = first_s = loop.time()
        self.began.set()
        yield StateChange(CameraState.LIVE, "pictures arrive")
        for seq in range(int(self.world.duration_s * self.world.per_s)):
            at_s = seq / self.world.per_s
            await asyncio.sleep(max(0.0, first_s + at_s - loop.time()))
            self.captured_s[seq] = at_s
            image = rng.integers(96, 160, (_SIZE[1], _SIZE[0], 3), np.uint8)
            image.setflags(write=False)
            yield Captured(image, seq, first_s + at_s, at_s * 1000)
        yield Ended(CameraState.FINISHED, "the pictures are over")

    async def close(self) -> None:
        """Nothing is held."""


def _camera() -> CameraSettings:
    """A camera whose every frame is analysed and asked about."""
    return CameraSettings(
        "camera",
        CaptureSettings("scripted", realtime=True),
        sample_fps=100.0,
        sampling="fixed",
        change_detection="uniform",
        route="edge",
        candidates=CandidateSettings(recheck_s=0.0, still_recheck_s=0.0),
        offload=OffloadSettings(full_frame_s=0.0, least_gain=0.0),
    )


def _worker(it: Character, session: Transport, seed: int) -> WorkerService:
    rng = Random(f"{seed}/{it.target}")
    settings = WorkerSettings(
        (ServedModel(MODEL),),
        worker=it.target,
        tier="edge" if it is EDGE else "cloud",
        energy_j=it.energy_j,
        transfer_cost=it.transfer_cost,
    )
    model = Slots(1, lambda _: it.run_ms / 1000 * rng.lognormvariate(0.0, 0.1))
    runners = Runners(model, Slots(1, lambda _: 0.001))
    return WorkerService(settings, {MODEL: Seeing(MODEL, 0.9)}, session, LoopClock(), runners)


class _Stage:
    """Agent, workers, broker and network of one run."""

    def __init__(self, world: World) -> None:
        self._world, self._hub, self._record, self._pictures = world, MemoryHub(), Kept(), Pictures(world)
        self._powered = Powered(MemoryTransport(self._hub, offline(EDGE.target), EDGE.target))

    async def run(self) -> Played:
        agent, pictures = self._agent(), self._pictures
        workers = _worker(EDGE, self._powered, self._world.seed), _worker(CLOUD, self._far(), self._world.seed)
        beside = [asyncio.create_task(part) for part in (*(worker.run() for worker in workers), self._power())]
        try:
            await agent.run(wait_for_cloud_s=5.0)
        finally:
            for task in beside:
                task.cancel()
            ends = await asyncio.gather(*beside, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        asked_s = tuple(at_s - pictures.first_s for at_s in self._powered.asked_s)
        return Played(tuple(self._record.results), pictures.captured_s, agent.counters(), asked_s)

    def _agent(self) -> Agent:
        links = Links(MemoryTransport(self._hub, name="bulk"), MemoryTransport(self._hub, name="control"))
        settings = AgentSettings("agent", (_camera(),), replace(self._world.uplink, model=MODEL))
        pools = Pools(Slots(2, lambda _: _GATE_S), Slots(1, lambda _: _LOOK_S))
        small = Seeing("small", 0.5)
        return Agent(settings, small, links, pools, LoopClock(), lambda _: self._pictures, self._record)

    def _far(self) -> Transport:
        up, down = profile(self._world.network, self._world.seed).links(0.0)
        session = MemoryTransport(self._hub, offline(CLOUD.target), CLOUD.target)
        return ShapedTransport(session, down, up, LoopClock())  # what comes to the worker goes up from the site

    async def _power(self) -> None:
        await self._pictures.began.wait()
        for after_s, on in ((self._world.dies_s, False), (self._world.back_s, True)):
            if after_s < self._world.duration_s:
                await asyncio.sleep(after_s)
                self._powered.on = on


def play(world: World) -> Played:
    """Run a world to its end."""
    return run_virtual(_Stage(world).run())
