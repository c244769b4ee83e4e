"""Workers with batches that gain, on virtual time: their real queue, admission and batcher around a model that sleeps.

A run of ``b`` pictures of the usual size takes l(b) = 5 + 1.2 b ms, as on an accelerator: eight together cost little
more than twice what one does. Several workers get requests in turn, as rumqttd and mosquitto give out a shared
subscription.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from cloud_worker.batcher import Batcher, Policies
from cloud_worker.jobs import Job, ReplyAddress
from cloud_worker.outcomes import Answered, Outcome
from cloud_worker.queue import RequestQueue
from cloud_worker.replies import Durations
from cloud_worker.warm_up import RunTime
from foveate.load.arrivals import Arrival, HeightWidth
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.admission import ADMISSION_KINDS, AdmissionBounds
from pipeline.policies.batch import BATCH_KINDS
from pipeline.policies.schedule import SCHEDULING_KINDS
from pipeline.timing import LoopClock, run_virtual
from pipeline.wire.messages import Request, WireCrop

MAX_BATCH = 8
USUAL_PX: HeightWidth = (32, 32)
FIXED_S, EACH_S = 0.005, 0.0012
CAPACITY_PER_S = MAX_BATCH / (FIXED_S + EACH_S * MAX_BATCH)
"""Of one worker in full batches of the usual size."""
CAMERAS = 8
_SETTLE_S = 1.0
_ADDRESS = ReplyAddress("-", b"-")


@dataclass(frozen=True, slots=True)
class Way:
    """How a worker batches: a policy by name with its window, and what stands around it."""

    batch: str
    window_s: float = 0.0
    admission: str = "deadline"
    scheduling: str = "edf_weighted"
    max_batch: int = MAX_BATCH


@dataclass(slots=True)
class Tally:
    """What became of the requests. ``late``: run, and answered too late. ``sizes`` counts batches."""

    offered: int = 0
    in_time: int = 0
    late: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)

    @property
    def missed(self) -> int:
        """Requests without an answer in time, whatever the reason."""
        return self.late + self.refused.total()

    def add(self, other: "Tally") -> None:
        """Take in another one."""
        self.offered += other.offered
        self.in_time += other.in_time
        self.late += other.late
        self.refused += other.refused
        self.sizes += other.sizes


def run_s(batch: int, size_px: HeightWidth = USUAL_PX, rng: Random | None = None, spread: float = 0.0) -> float:
    """What a batch takes: for other sizes in proportion to the pixels; with a generator, log-normal about that."""
    usual_s = FIXED_S + EACH_S * batch * size_px[0] * size_px[1] / (USUAL_PX[0] * USUAL_PX[1])
    return usual_s if rng is None else usual_s * rng.lognormvariate(0.0, spread)


@dataclass(slots=True)
class _Model:
    rng: Random | None
    spread: float
    tally: Tally

    async def detect(self, model: str, images: Sequence[Image], min_score: float) -> list[Detections] | str:
        del model, min_score
        self.tally.sizes[len(images)] += 1
        height, width = images[0].shape[:2]
        await asyncio.sleep(run_s(len(images), (height, width), self.rng, self.spread))
        return [Detections.none()] * len(images)


class _Worker:
    """A batcher with its queue, whose pictures are decoded at once."""

    def __init__(self, way: Way, rng: Random | None, spread: float, sizes_px: Sequence[HeightWidth]) -> None:
        self.tally = Tally()
        self._queue = RequestQueue(SCHEDULING_KINDS[way.scheduling]())
        bounds = AdmissionBounds(64, 10**9)
        policies = Policies(
            ADMISSION_KINDS[way.admission](), bounds, BATCH_KINDS[way.batch](way.window_s), way.max_batch
        )
        model = _Model(rng, spread, self.tally)
        self.batcher = Batcher(policies, self._queue, model, LoopClock(), self._deliver)
        most = 1 if way.batch == "none" else way.max_batch
        self.batcher.warmed(
            RunTime("m", Size(width, height), batch, run_s(batch, (height, width)))
            for height, width in sizes_px
            for batch in range(1, most + 1)
        )

    def offer(self, job: Job) -> None:
        self.tally.offered += 1
        refused = self.batcher.admit(job)
        if refused is not None:
            self.tally.refused[refused.refusal.value] += 1
            return
        self._queue.next_encoded()
        self._queue.decoded(job, np.zeros((job.size.height, job.size.width, 3), np.uint8))
        self.batcher.wake()

    def _deliver(self, job: Job, outcome: Outcome, spent: Durations) -> None:
        del spent
        if not isinstance(outcome, Answered):
            self.tally.refused[outcome.refusal.value] += 1
        elif LoopClock().now_s() <= job.deadline_s + 1e-9:
            self.tally.in_time += 1
        else:
            self.tally.late += 1


def serve(
    way: Way,
    arrivals: Sequence[Arrival],
    *,
    workers: int = 1,
    spread: float = 0.0,
    seed: int = 0,
    most_missed: float = math.inf,
) -> Tally:
    """Offer arrivals to workers in turn, and add up what became of them. Run times vary by a log-normal ``spread``,
    drawn from ``seed``. More than ``most_missed`` misses end it early: then fewer were offered.
    """
    sizes_px = sorted({each.size_px for each in arrivals}) or [USUAL_PX]
    made: list[_Worker] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        rng = Random(seed) if spread else None
        made.extend(_Worker(way, rng, spread, sizes_px) for _ in range(workers))
        serving = [asyncio.create_task(each.batcher.run()) for each in made]
        for each in arrivals:
            if sum(worker.tally.missed for worker in made) > most_missed:
                break
            await asyncio.sleep(each.at_s - loop.time())
            made[each.number % workers].offer(_job(each, loop.time()))
        await asyncio.sleep(_SETTLE_S)
        for task in serving:
            task.cancel()

    run_virtual(scene())
    total = Tally()
    for worker in made:
        total.add(worker.tally)
    return total


def _job(arrival: Arrival, now_s: float) -> Job:
    height, width = arrival.size_px
    request = Request(
        agent="bench",
        camera=str(arrival.agent),
        epoch=1,
        seq=arrival.number,
        budget_ms=arrival.deadline_s * 1e3,
        weight=1.0,
        kind="mosaic",
        frame_width=width,
        frame_height=height,
        crops=[WireCrop((0, 0, width, height), (0, 0, width, height))],
        model="m",
        min_score=0.5,
    )
    return Job(request, memoryview(b""), Size(width, height), _ADDRESS, now_s, now_s + arrival.deadline_s)
