"""The real agent and the real worker on virtual time: real decisions on real pictures, with measured service times.

Everything runs as in production but for three things: a piece of work takes the time that was measured for its kind
instead of the time that it takes now, the broker is in memory, and the network between them is a model. So a run
depends on its seed alone, a minute of video takes seconds, and a busy machine cannot spoil a figure. What the event
loop itself needs (tracking, decisions, messages: about 2 ms per analysed frame) takes no time here.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

from cloud_worker.service import Runners, WorkerService, WorkerStatistics
from cloud_worker.settings import WorkerSettings
from edge_agent.agent import Agent, Links
from edge_agent.capture.base import Captured, CaptureEvent, Ended, StateChange
from edge_agent.capture.settings import CaptureSettings
from edge_agent.gate import Gated
from edge_agent.pools import Pools
from edge_agent.publish import RecordWriter
from edge_agent.settings import AgentSettings, CameraSettings, UplinkSettings
from foveate.bench.playlist import Playlist, shown
from foveate.bench.service_times import ServiceTimes
from foveate.config.settings import for_sources, plan
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.frames import Image
from pipeline.network.profiles import Profile
from pipeline.results import CameraState, Result
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.base import Outgoing, PublishStatus, Transport
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.transport.shaped import ShapedTransport

T = TypeVar("T")
CAMERA = "camera"
STARTED = datetime.fromtimestamp(0, UTC)
"""Frames are named after the moment at which an agent began, and by their names some are drawn to be learned from."""
SOCKET_OVERHEAD = 40 / 1460
"""TCP and IP headers per byte of payload."""
PUBLISH_OVERHEAD_BYTES = 120
"""Of one request's MQTT packet beyond its payload: topics, correlation data, trace."""


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
    """The two models and what they take. Answers are remembered, so that a second run need not compute them again."""

    small: Detector
    large: Detector
    times: ServiceTimes

    @classmethod
    def remembering(cls, small: Detector, large: Detector, times: ServiceTimes) -> "Models":
        return cls(Remembering(small), Remembering(large), times)


@dataclass(frozen=True, slots=True, eq=False)
class VirtualRun:
    """What came of a run. ``captured_s`` when each frame was captured and ``started_s`` when the first one was.

    ``uplink_bytes`` are those of the pictures' session at the socket: payload, MQTT and TCP/IP headers.
    """

    results: tuple[Result, ...]
    captured_s: dict[int, float]
    uplink_bytes: int
    counters: dict[str, int]
    worker: WorkerStatistics
    duration_s: float

    @property
    def record(self) -> dict[int, Result]:
        """The first result of each frame, by its number from 0."""
        first: dict[int, Result] = {}
        for result in self.results:
            first.setdefault(result.seq, result)
        return first


class Remembering:
    """A detector that never looks at the same picture twice."""

    def __init__(self, inner: Detector) -> None:
        self._inner = inner
        self._known: dict[tuple[bytes, float], Detections] = {}
        self.name, self.version, self.labels = inner.name, inner.version, inner.labels

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        return [self._one(image, min_score) for image in images]

    def _one(self, image: Image, min_score: float) -> Detections:
        key = hashlib.blake2b(image.tobytes(), digest_size=16).digest(), min_score
        if key not in self._known:
            self._known[key] = self._inner.detect([image], min_score)[0]
        return self._known[key]


class _Timed:
    """A worker's model whose runs know how long they would have taken."""

    def __init__(self, inner: Detector, times: ServiceTimes, rng: Random) -> None:
        self._inner, self._times, self._rng = inner, times, rng
        self.name, self.version, self.labels = inner.name, inner.version, inner.labels
        self.last_s = 0.0

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        self.last_s = sum(self._times.cloud_s(image.shape[0] * image.shape[1], self._rng) for image in images)
        return self._inner.detect(images, min_score)


class _Slots:
    """A pool of virtual threads: a call is instant, then its thread is taken for as long as it would have needed."""

    def __init__(self, slots: int, duration_s: Callable[[Any], float]) -> None:
        self._free, self._duration_s = asyncio.Semaphore(slots), duration_s

    async def run(self, call: Callable[[], T]) -> T:
        async with self._free:
            result = call()
            await asyncio.sleep(self._duration_s(result))
            return result

    def close(self) -> None:
        """Nothing is held."""


class _Show:
    """A camera that shows a playlist in real time."""

    def __init__(self, playlist: Playlist) -> None:
        self._playlist = playlist
        self.live, self.stills = True, False
        self.total_frames: int | None = None
        self.process_ids: tuple[int, ...] = ()
        self.captured_s: dict[int, float] = {}

    async def events(self) -> AsyncIterator[CaptureEvent]:
        loop = asyncio.get_running_loop()
        first_s = loop.time()
        yield StateChange(CameraState.LIVE, "pictures arrive")
        for seq, (at_s, image) in enumerate(shown(self._playlist)):
            await asyncio.sleep(max(0.0, first_s + at_s - loop.time()))
            self.captured_s[seq] = first_s + at_s
            image.setflags(write=False)
            yield Captured(image, seq, first_s + at_s, at_s * 1000)
        yield Ended(CameraState.FINISHED, "the playlist is over")

    async def close(self) -> None:
        """Nothing is held."""


class _Kept(RecordWriter):
    """Keeps results in memory."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.results: list[Result] = []

    def add(self, result: Result) -> None:
        self.results.append(result)

    async def run(self) -> None:
        await asyncio.Event().wait()


class _Counted:
    """A session that counts what it sends."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.sent_bytes = 0
        self.subscribe, self.on_connect, self.run = inner.subscribe, inner.on_connect, inner.run
        self.wait_connected = inner.wait_connected

    @property
    def state(self) -> Any:
        return self._inner.state

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        status = await self._inner.publish(outgoing)
        if status is PublishStatus.SENT:
            self.sent_bytes += round((len(outgoing.payload) + PUBLISH_OVERHEAD_BYTES) * (1 + SOCKET_OVERHEAD))
        return status


def play(scenario: Scenario, models: Models) -> VirtualRun:
    """Run a scenario to its end."""
    return run_virtual(_Stage(scenario, models).run())


class _Stage:
    """Agent, worker, hub and network of one run."""

    def __init__(self, scenario: Scenario, models: Models) -> None:
        self._scenario, self._models = scenario, models
        self._rng = Random(scenario.seed)
        self._hub, self._record, self._show = MemoryHub(), _Kept(), _Show(scenario.playlist)

    async def run(self) -> VirtualRun:
        scenario, clock = self._scenario, LoopClock()
        bulk, control = self._sessions()
        counted = _Counted(bulk)
        worker = self._worker()
        agent = Agent(
            AgentSettings("agent", (scenario.camera,), scenario.uplink),
            self._models.small,
            Links(counted, control),
            self._pools(),
            clock,
            lambda _: self._show,
            self._record,
            started=STARTED,
        )
        serving = asyncio.create_task(worker.run(), name="worker")
        started_s = clock.now_s()
        try:
            await agent.run(wait_for_cloud_s=5.0)
        finally:
            statistics = worker.statistics()
            worker.stop()
            await asyncio.wait([serving])
        serving.result()
        results = tuple(self._record.results)
        return VirtualRun(
            results, self._show.captured_s, counted.sent_bytes, agent.counters(), statistics, clock.now_s() - started_s
        )

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
        model = _Timed(self._models.large, self._models.times, rng)
        decode = self._models.times.decode
        runners = Runners(_Slots(1, lambda _: model.last_s), _Slots(1, lambda _: decode.draw_s(rng)))
        session = MemoryTransport(self._hub, name="worker")
        return WorkerService(settings, {settings.models[0].name: model}, session, LoopClock(), runners)

    def _pools(self) -> Pools:
        times, rng = self._models.times, self._rng

        def of_picture(result: object) -> float:
            """By what comes out: the gate's verdict, or a picture drawn and encoded."""
            return (times.gate if isinstance(result, Gated) else times.draw).draw_s(rng)

        return Pools(_Slots(2, of_picture), _Slots(1, lambda _: times.edge.draw_s(rng)))
