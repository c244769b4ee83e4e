"""An agent and a worker, both real, with a modelled network between agent and broker; all on virtual time."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from cloud_worker.announce import offline
from cloud_worker.service import Runners, WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from edge_agent.agent import Agent, Links
from edge_agent.pools import Inline, Pools
from edge_agent.publish import BACKLOG_BYTES, Publisher
from edge_agent.questions import Answer
from edge_agent.settings import AgentSettings, CameraSettings, UplinkSettings
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.network.profiles import Profile
from pipeline.timing import LoopClock
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.transport.shaped import ShapedTransport
from tests.support.agents import UNSURE_PERSON, Kept, Pictures, SmallModel, camera
from tests.support.detectors import VirtualRunner

LARGE = "large"


class LargeModel:
    """Sees one person in the middle of each picture."""

    def __init__(self) -> None:
        self.name, self.version, self.labels = LARGE, "1", ("person", "car")

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        found = []
        for image in images:
            height, width = image.shape[:2]
            found.append(Detections.of([[width / 4, height / 5, width * 3 / 4, height * 4 / 5]], [0.9], ["person"]))
        return found


@dataclass
class Heard:
    """An answer that reached a camera: when, for which frame of it, and how old that frame was."""

    at_s: float
    camera: str
    seq: int
    round_trip_s: float
    cloud_s: float


@dataclass
class Run:
    """What a run over a network has brought. ``frame_s`` are the times of capture by camera."""

    agent: Agent
    worker: WorkerService
    kept: Kept
    frame_s: dict[str, float]
    period_s: float
    heard: list[Heard] = field(default_factory=list)

    def captured_at_s(self, name: str, seq: int) -> float:
        return self.frame_s[name] + seq * self.period_s

    def first_fresh_s(self, after_s: float) -> float:
        """When the first answer of the cloud came for a question that was sent after a moment."""
        return min(one.at_s for one in self.heard if one.at_s - one.round_trip_s >= after_s)


async def run_over(
    network: Profile,
    *,
    seconds: float,
    cameras: Sequence[CameraSettings] = (),
    fps: float = 10.0,
    service_s: Callable[[], float] = lambda: 0.03,
    begin_s: float = 0.0,
    uplink: UplinkSettings | None = None,
) -> Run:
    """Run cameras and one worker for a while; the network's time begins at 0, the cameras begin at ``begin_s``."""
    hub, clock = MemoryHub(), LoopClock()
    up, down = network.links(0.0)
    chosen = tuple(cameras) or (camera(sample_fps=5.0, deadline_ms=150.0),)
    sources = [Pictures(round((seconds - begin_s) * fps), fps) for _ in chosen]
    waiting = iter(sources)
    small, kept = SmallModel(UNSURE_PERSON), Kept()
    bulk = ShapedTransport(MemoryTransport(hub, name="bulk"), up, down, clock)
    control = ShapedTransport(
        MemoryTransport(hub, Publisher.will("a1"), "control"), up, down, clock, backlog_bytes=BACKLOG_BYTES
    )
    settings = AgentSettings("a1", chosen, replace(uplink or UplinkSettings(), model=LARGE))
    pools = Pools(Inline(), VirtualRunner(lambda: small.run_s))
    agent = Agent(settings, small, Links(bulk, control), pools, clock, lambda _: next(waiting), kept)
    worker = WorkerService(
        # The scripted pictures are all alike and stand for different ones: each is to be run.
        WorkerSettings(models=(ServedModel(LARGE),), worker="w", coalesce=False, cache_ttl_s=0.0),
        {LARGE: LargeModel()},
        MemoryTransport(hub, will=offline("w"), name="w"),
        clock,
        Runners(VirtualRunner(service_s), VirtualRunner(lambda: 0.002)),
    )
    run = Run(agent, worker, kept, {}, 1 / fps)
    for one in agent.cameras:
        _listen(run, one.name, one.answered)
    serving = asyncio.create_task(worker.run())
    await asyncio.sleep(begin_s)
    await agent.run(1.0)
    run.frame_s = {one.name: source.first_s for one, source in zip(agent.cameras, sources, strict=True)}
    worker.stop()
    await serving
    return run


def _listen(run: Run, name: str, answered: object) -> None:
    [camera] = [one for one in run.agent.cameras if one.name == name]

    def heard(answer: Answer) -> None:
        now_s = LoopClock().now_s()
        cloud_s = answer.reply.total_ms / 1000
        run.heard.append(Heard(now_s, name, answer.question.key.seq, answer.round_trip_ms / 1000, cloud_s))
        answered(answer)  # type: ignore[operator] # the camera's own method

    camera.answered = heard  # type: ignore[method-assign] # to listen in
