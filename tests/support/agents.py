"""An edge agent on virtual time: scripted sources, a scripted small model, a scripted cloud on an in-process hub."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cloud_worker.jobs import ReplyAddress
from cloud_worker.replies import ReplyWriter
from edge_agent.agent import Agent, Links
from edge_agent.candidates import CandidateSettings
from edge_agent.capture.base import Captured, CaptureEvent, Ended, StateChange
from edge_agent.capture.settings import CaptureSettings
from edge_agent.pools import Inline, Pools, Runner
from edge_agent.publish import Publisher, RecordWriter
from edge_agent.releases.judging import JudgingSettings
from edge_agent.settings import AgentSettings, CameraSettings, UplinkSettings
from pipeline.alerts import Alert, AnyAlert, ModelAlert, decode_alert
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.ledger import LedgerSnapshot
from pipeline.policies.offload import OffloadSettings
from pipeline.results import CameraState, Result
from pipeline.timing import LoopClock
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire import topics
from pipeline.wire.codec import (
    BadPayload,
    decode_cancel,
    decode_echo,
    decode_request,
    encode_reply,
    encode_worker_state,
)
from pipeline.wire.messages import Cancel, Echo, Refusal, Reply, Request, WireDetection, WorkerModel, WorkerState
from tests.support.detectors import VirtualRunner, grey_picture

MODEL = "nanodet-g"
PERSON_XYXY = (60.0, 40.0, 100.0, 140.0)
WIDTH, HEIGHT = 200, 160


class SmallModel:
    """Sees the same objects (label, score, ``xyxy``) in every picture; takes ``run_s`` of virtual time."""

    def __init__(
        self, *objects: tuple[str, float, tuple[float, float, float, float]], run_s: float = 0.01, fails_at: int = -1
    ) -> None:
        self.name, self.version, self.labels = "small", "1", ("person", "car")
        self.objects = objects
        self.run_s, self.fails_at = run_s, fails_at
        self.runs = 0

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        self.runs += 1
        if self.runs - 1 == self.fails_at:
            raise RuntimeError("the small model broke")
        seen = [one for one in self.objects if one[1] >= min_score]
        found = Detections.of([one[2] for one in seen], [one[1] for one in seen], [one[0] for one in seen])
        return [found for _ in images]


UNSURE_PERSON = ("person", 0.5, PERSON_XYXY)


class Pictures:
    """A scripted source: ``count`` pictures at ``fps``, then the end. A live one hands over its newest and counts the
    rest as lost; another one hands over the next, at once.
    """

    def __init__(
        self, count: int = 10, fps: float = 10.0, *, live: bool = True, paint: Callable[[int], Image] | None = None
    ) -> None:
        self.count, self.period_s, self.live = count, 1 / fps, live
        self.total_frames: int | None = count
        self.stills = False
        self.process_ids: tuple[int, ...] = ()
        self.waiting: list[StateChange] = []
        self.first_s = 0.0
        self._paint = paint or (lambda seq: grey_picture(100 + 40 * (seq % 2), WIDTH, HEIGHT))
        self._closed = asyncio.Event()

    async def events(self) -> AsyncIterator[CaptureEvent]:
        loop = asyncio.get_running_loop()
        self.first_s = loop.time()
        yield StateChange(CameraState.LIVE, "pictures arrive")
        seq = 0
        while seq < self.count and not self._closed.is_set():
            lost = 0
            at_s = loop.time()
            if self.live:
                newest = min(int((at_s - self.first_s) / self.period_s + 1e-9), self.count - 1)
                lost = max(0, newest - seq)
                seq += lost
                at_s = self.first_s + seq * self.period_s
                await asyncio.sleep(at_s - loop.time())
            for change in self.waiting:
                yield change
            self.waiting = []
            yield Captured(self._paint(seq), seq, at_s, seq * self.period_s * 1000, lost)
            seq += 1
        if not self._closed.is_set():
            yield Ended(CameraState.FINISHED, f"the script ended after {self.count} pictures")

    async def close(self) -> None:
        self._closed.set()


@dataclass(frozen=True)
class Deed:
    """What the cloud does with one request or probe: answers after ``delay_s`` (never where None), ``copies`` times.

    ``infer_ms`` is what it says that its model took. ``frame_s`` is how long its model takes for a whole frame, where
    that is what takes long.
    """

    delay_s: float | None = 0.03
    copies: int = 1
    refused: Refusal | None = None
    sees: bool = True
    infer_ms: float = 5.0
    frame_s: float | None = None


class Cloud:
    """A scripted worker. ``deeds`` are for requests and probes in order, the last one for all that follow.

    ``announced`` are fields of its state. While it is ``dead`` it does nothing, and nobody is told.
    """

    def __init__(
        self, hub: MemoryHub, deeds: Sequence[Deed], *, name: str = "w", model: str = MODEL, **announced: Any
    ) -> None:
        models = [WorkerModel(name=model, version="1", label_set="x")]
        self._state = WorkerState(worker=name, online=True, models=models, heartbeat_s=1e6, **announced)
        self._transport = MemoryTransport(hub, name="cloud" if name == "w" else name)
        tier = self._state.tier
        for target in topics.targets(tier, self._state.location):
            self._transport.subscribe(topics.request_share("g", target, model), self._on_request)
            self._transport.subscribe(topics.cancels(target), self._on_cancel)
        self._transport.on_connect(self._announce)
        self.deeds = deeds
        self._replies: set[asyncio.Task[None]] = set()
        self._asked = 0
        self.requests: list[Request] = []
        self.asked_at_s: list[float] = []
        self.cancelled = 0
        self.dead = False

    async def run(self) -> None:
        await self._transport.run()

    async def _announce(self) -> None:
        await self.tell(online=True)

    async def tell(self, *, online: bool) -> None:
        """Say that the worker is there, or gone."""
        state = self._state if online else WorkerState(worker=self._state.worker, online=False)
        payload = encode_worker_state(state)
        await self._transport.publish(Outgoing(topics.worker(state.worker), payload, qos=1, retain=True))

    def _on_cancel(self, message: Message) -> None:
        cancel = decode_cancel(message.payload)
        assert isinstance(cancel, Cancel)
        self.cancelled += len(cancel.correlations)

    def _on_request(self, message: Message) -> None:
        if self.dead:
            return
        deed = self.deeds[min(self._asked, len(self.deeds) - 1)]
        self._asked += 1
        echo = decode_echo(message.payload)
        if echo is not None:
            self._play(deed, self._echo(message, echo))
            return
        decoded = decode_request(message.payload)
        assert not isinstance(decoded, BadPayload), decoded.reason
        request, _ = decoded
        self.requests.append(request)
        self.asked_at_s.append(asyncio.get_running_loop().time())
        if request.kind == "frame" and deed.frame_s is not None:
            deed = replace(deed, delay_s=deed.frame_s + 0.02, infer_ms=deed.frame_s * 1000)
        self._play(deed, self._reply(message, request, deed))

    def _play(self, deed: Deed, reply: Coroutine[Any, Any, None]) -> None:
        async def play(delay_s: float) -> None:
            await asyncio.sleep(delay_s)
            if not self.dead:
                await reply

        if deed.delay_s is None:
            reply.close()
            return
        task = asyncio.create_task(play(deed.delay_s))
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)
        task.add_done_callback(lambda _: reply.close())

    async def _echo(self, message: Message, echo: Echo) -> None:
        assert message.response_topic is not None
        writer = ReplyWriter(self._state.worker, {})
        address = ReplyAddress(message.response_topic, message.correlation or b"")
        await self._transport.publish(
            Outgoing(message.response_topic, writer.echo(address, echo), correlation=message.correlation)
        )

    async def _reply(self, message: Message, request: Request, deed: Deed) -> None:
        reply = Reply(
            agent=request.agent,
            camera=request.camera,
            epoch=request.epoch,
            seq=request.seq,
            worker=self._state.worker,
            model=request.model,
            model_version="1",
            detections=[] if deed.refused else [self._seen(request, crop.placed[2:], deed) for crop in request.crops],
            queue_ms=1.0,
            batch_wait_ms=0.0,
            infer_ms=deed.infer_ms,
            total_ms=deed.infer_ms + 3.0,
            refused=deed.refused,
        )
        assert message.response_topic is not None
        for _ in range(deed.copies):
            await self._transport.publish(
                Outgoing(message.response_topic, encode_reply(reply), correlation=message.correlation)
            )

    def _seen(self, request: Request, size: tuple[int, int], deed: Deed) -> list[WireDetection]:
        """A person in the middle of the crop, or in the right place of a whole frame."""
        if not deed.sees:
            return []
        width, height = size
        box = (width * 0.25, height * 0.2, width * 0.75, height * 0.8)
        if request.kind == "frame":
            x1, y1, x2, y2 = PERSON_XYXY
            box = (x1 * width / WIDTH, y1 * height / HEIGHT, x2 * width / WIDTH, y2 * height / HEIGHT)
        return [WireDetection("person", 0.9, box)]


class Kept(RecordWriter):
    """Keeps results and the moment at which each went out."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.results: list[tuple[float, Result]] = []

    def add(self, result: Result) -> None:
        self.results.append((asyncio.get_running_loop().time(), result))

    async def run(self) -> None:
        await asyncio.Event().wait()


@dataclass
class Stage:
    """An agent, its hub and its cloud, while they run and afterwards."""

    hub: MemoryHub
    agent: Agent
    cloud: Cloud | None
    others: list[Cloud]
    kept: Kept
    sources: list[Pictures]
    control: MemoryTransport
    bulk: MemoryTransport
    heard: list[Message] = field(default_factory=list)
    ends: dict[str, Ended | None] = field(default_factory=dict)

    def results(self, camera: str = "gate") -> list[Result]:
        return [result for _, result in self.kept.results if result.camera == camera]

    def result(self, seq: int) -> Result:
        [found] = [result for result in self.results() if result.seq == seq]
        return found

    def origins(self, camera: str = "gate") -> list[str]:
        return [result.origin for result in self.results(camera)]

    def counts(self, number: int = 0) -> LedgerSnapshot:
        return self.agent.cameras[number].board.ledger.snapshot()

    def drops(self) -> dict[str, int]:
        return {reason: count for reason, count in self.counts().drops.items() if count}

    def alerts(self, camera: str = "gate") -> list[Alert]:
        """What a subscriber hears of budgets."""
        return [alert for alert in self._all_alerts(camera) if isinstance(alert, Alert)]

    def model_alerts(self, camera: str = "gate") -> list[ModelAlert]:
        """What a subscriber hears of models that were given up."""
        return [alert for alert in self._all_alerts(camera) if isinstance(alert, ModelAlert)]

    def _all_alerts(self, camera: str) -> list[AnyAlert]:
        return [decode_alert(m.payload) for m in self.heard if m.topic == topics.alert(camera)]

    def states(self, camera: str = "gate") -> list[tuple[str, str]]:
        """State and reason of a camera, as a subscriber reads them; repetitions left out."""
        said = [m.payload for m in self.heard if m.topic == topics.state(camera)]
        states = [(one["state"], one["reason"]) for one in map(msgspec.json.decode, said)]
        return [state for state, _ in itertools.groupby(states)]

    def availability(self) -> list[str]:
        return [m.payload.decode() for m in self.heard if m.topic == topics.available("a1")]

    def lateness_s(self) -> list[float]:
        """How long after its deadline each answer went out; negative where it was in time."""
        start_s = {c.name: s.first_s for c, s in zip(self.agent.cameras, self.sources, strict=True)}
        return [
            at_s - (start_s[r.camera] + (r.media_ms or 0.0) / 1000 + r.deadline_ms / 1000)
            for at_s, r in self.kept.results
        ]


def camera(name: str = "gate", **changes: Any) -> CameraSettings:
    """A camera that analyses ten frames a second and has each of them looked at again, moving or not."""
    values: dict[str, Any] = {
        "sample_fps": 10.0,
        "change_detection": "uniform",
        "publish": "all",
        "candidates": CandidateSettings(still_recheck_s=0.0),
        "offload": OffloadSettings(full_frame_s=0.0, tail_deviations=1.0, least_gain=0.0),
    }
    return CameraSettings(name, CaptureSettings("scripted"), **(values | changes))


@asynccontextmanager
async def stage(
    sources: Sequence[Pictures],
    *,
    model: SmallModel | None = None,
    deeds: Sequence[Deed] | None = (Deed(),),
    cameras: Sequence[CameraSettings] = (),
    uplink: UplinkSettings | None = None,
    broker_up: bool = True,
    image_s: float = 0.0,
    light: SmallModel | None = None,
    state_dir: Path | None = None,
    rollout: JudgingSettings | None = None,
    aside: Runner | None = None,
    others: Sequence[Callable[[MemoryHub], Cloud]] = (),
) -> AsyncIterator[Stage]:
    """Set up an agent ``a1``; ``deeds`` None is a world without workers, ``image_s`` what the gate takes, ``light`` a
    lighter small model, which takes as long as the other one, as does a candidate without a runner ``aside`` of its
    own. ``others`` make further workers.
    """
    hub = MemoryHub()
    small = model or SmallModel(UNSURE_PERSON)
    settings = AgentSettings(
        "a1",
        tuple(cameras) or (camera(),),
        uplink or UplinkSettings(),
        state_dir=state_dir,
        rollout=rollout or JudgingSettings(),
    )
    bulk, control = MemoryTransport(hub, name="bulk"), MemoryTransport(hub, Publisher.will("a1"), "control")
    waiting = iter(sources)
    kept = Kept()
    pools = Pools(VirtualRunner(lambda: image_s) if image_s else Inline(), VirtualRunner(lambda: small.run_s), aside)
    agent = Agent(settings, small, Links(bulk, control), pools, LoopClock(), lambda _: next(waiting), kept, light)
    cloud = Cloud(hub, deeds) if deeds is not None else None
    more = [make(hub) for make in others]
    made = Stage(hub, agent, cloud, more, kept, list(sources), control, bulk)
    listener = MemoryTransport(hub, name="listener")
    listener.subscribe("foveate/#", made.heard.append)
    sessions = [asyncio.create_task(listener.run())]
    sessions += [asyncio.create_task(worker.run()) for worker in (cloud, *more) if worker is not None]
    await asyncio.sleep(0)
    if not broker_up:
        hub.stop()
    try:
        yield made
    finally:
        for session in sessions:
            session.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)


async def play(*sources: Pictures, wait_for_cloud_s: float = 1.0, **changes: Any) -> Stage:
    """Run an agent until its sources end."""
    async with stage(sources, **changes) as made:
        made.ends = await made.agent.run(wait_for_cloud_s)
        await asyncio.sleep(0.01)  # let the last messages arrive
    return made


def labels(result: Result) -> list[str]:
    return [found.label for found in result.detections]


def moving_square(seq: int) -> Image:
    """A dark square that moves right by 6 px per picture on a bright ground."""
    image = np.full((HEIGHT, WIDTH, 3), 200, np.uint8)
    left = 10 + 6 * seq % (WIDTH - 60)
    image[40:120, left : left + 40] = 30
    return image
