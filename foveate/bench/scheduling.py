"""Scheduling under load: one worker's queue, admission and batcher, as they are, on virtual time.

Many cameras with deadlines of 60, 150 and 400 ms offer more or less than a model can do. Only the model is not real: it
sleeps for its service time. So nothing of what is measured exists twice.

The baselines let in what there is room for and drop nothing. That they collapse takes a queue that holds more work than
the longest deadline and a run that is long enough to fill it; ``sched_13_fifo_queue_8`` shows a short queue instead,
which saves them by refusing blindly.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median

import numpy as np

from cloud_worker.batcher import Batcher, Policies
from cloud_worker.jobs import Job, ReplyAddress
from cloud_worker.outcomes import Answered, Outcome
from cloud_worker.queue import RequestQueue
from cloud_worker.replies import Durations
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.admission import ADMISSION_KINDS, AdmissionBounds
from pipeline.policies.batch import BatchPolicy, DeadlineBatching
from pipeline.policies.schedule import SCHEDULING_KINDS
from pipeline.timing import LoopClock, run_virtual
from pipeline.wire.messages import Request, WireCrop

SEEDS = (1, 2, 3, 4, 5)
SERVICE_S = 0.016
"""Mean time of a mosaic in the larger model, as measured on two cores; batches gain nothing there."""
_SPREAD, _SLOW, _SLOW_SHARE = 0.12, 2.0, 0.02
MEDIAN_SERVICE_S = SERVICE_S / (math.exp(_SPREAD**2 / 2) * (1 + _SLOW_SHARE * (_SLOW - 1)))
"""Work that is begun with less than this to its deadline was hopeless."""
DEADLINES_S = (0.06, 0.15, 0.4)
CAMERAS = 24
BASELINE_CAPACITY = 256
"""So long a queue of the baselines is four seconds of work: whatever has joined its end is late."""
_PICTURE = np.zeros((32, 32, 3), np.uint8)
_SIZE = Size(32, 32)


@dataclass(frozen=True, slots=True)
class Load:
    """What is offered: a share of capacity over ``duration_s``. Bursts are a two-state Markov-modulated Poisson process
    per camera, with ``burst`` times as much in one state as in the other. Weights go
    round the cameras in threes.
    """

    share: float
    duration_s: float
    burst: float = 1.0
    burst_s: float = 1.0
    weights: tuple[float, ...] = (1.0,)

    def weight(self, camera: int) -> float:
        """A camera's weight; every weight has cameras of every deadline."""
        return self.weights[camera // len(DEADLINES_S) % len(self.weights)]

    def cameras_by_weight(self) -> dict[float, list[int]]:
        """The cameras of each weight."""
        return {each: [c for c in range(CAMERAS) if self.weight(c) == each] for each in dict.fromkeys(self.weights)}

    def arrivals(self, rng: Random) -> list[tuple[float, int]]:
        """(moment, camera), in the order of time."""
        found: list[tuple[float, int]] = []
        per_s = self.share / SERVICE_S / CAMERAS
        high = 2 * self.burst / (1 + self.burst)
        for camera in range(CAMERAS):
            at_s, factor, switch_s = 0.0, high, rng.expovariate(1 / self.burst_s)
            while at_s < self.duration_s:
                step_s = rng.expovariate(per_s * factor)
                if at_s + step_s < switch_s or self.burst == 1.0:
                    at_s += step_s
                    found.append((at_s, camera))
                else:  # memoryless: the gap may be drawn anew from the moment of the switch on
                    at_s, factor = switch_s, 2 - factor
                    switch_s = at_s + rng.expovariate(1 / self.burst_s)
        return sorted(arrival for arrival in found if arrival[0] < self.duration_s)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of a load. ``goodput`` is the work answered in time, as a share of what the model can do."""

    hit: float
    goodput: float
    fairness: float
    hopeless_runs: int
    late_runs: int
    hit_by_deadline: Mapping[str, float]
    by_weight: Mapping[float, float]


@dataclass(slots=True)
class SleepingModel:
    """Takes a drawn service time for each picture; remembers when it began with the batch that it ended last."""

    rng: Random
    started_s: float = 0.0

    async def detect(self, model: str, images: Sequence[Image], min_score: float) -> list[Detections] | str:
        del model, min_score
        started_s = LoopClock().now_s()
        await asyncio.sleep(sum(service_s(self.rng) for _ in images))
        self.started_s = started_s  # not before: the next batch begins before the last one is told of
        return [Detections.none()] * len(images)


def service_s(rng: Random) -> float:
    """A run of the model: log-normal about the median, and one in fifty takes twice as long."""
    return MEDIAN_SERVICE_S * rng.lognormvariate(0.0, _SPREAD) * (_SLOW if rng.random() < _SLOW_SHARE else 1.0)


@dataclass(slots=True)
class _Stand:
    """A batcher with its queue, and the tally of what it delivers."""

    scheduling: str
    rng: Random
    baseline_capacity: int
    batching: BatchPolicy
    on_time: Counter[int] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    hopeless_runs: int = 0
    late_runs: int = 0
    model: SleepingModel = field(init=False)
    queue: RequestQueue = field(init=False)
    batcher: Batcher = field(init=False)

    def __post_init__(self) -> None:
        ours = self.scheduling == "edf_weighted"
        bounds = AdmissionBounds(64 if ours else self.baseline_capacity, 10**9)
        admission = ADMISSION_KINDS["deadline" if ours else "capacity"]()
        self.model = SleepingModel(self.rng)
        self.queue = RequestQueue(SCHEDULING_KINDS[self.scheduling]())
        policies = Policies(admission, bounds, self.batching, max_batch=8)
        self.batcher = Batcher(policies, self.queue, self.model, LoopClock(), self._deliver)

    def offer(self, job: Job) -> None:
        """Admit a job, as a worker does, with its picture decoded at once."""
        refused = self.batcher.admit(job)
        if refused is not None:
            self.refused[refused.refusal.value] += 1
            return
        self.queue.next_encoded()
        self.queue.decoded(job, _PICTURE)
        self.batcher.wake()

    def _deliver(self, job: Job, outcome: Outcome, spent: Durations) -> None:
        if not isinstance(outcome, Answered):
            self.refused[outcome.refusal.value] += 1
            return
        del spent
        self.hopeless_runs += job.deadline_s < self.model.started_s + MEDIAN_SERVICE_S
        if LoopClock().now_s() <= job.deadline_s:
            self.on_time[int(job.request.camera)] += 1
        else:
            self.late_runs += 1


def run(
    scheduling: str,
    load: Load,
    seed: int,
    baseline_capacity: int = BASELINE_CAPACITY,
    batching: BatchPolicy | None = None,
) -> Outcomes:
    """Offer a load to a worker that schedules in this way, and count. ``batching`` None: as the product does."""
    rng = Random(seed)
    arrivals = load.arrivals(rng)
    stand = _Stand(scheduling, rng, baseline_capacity, batching or DeadlineBatching())
    run_virtual(_serve(stand, load, arrivals))
    offered = Counter(camera for _, camera in arrivals)
    by_deadline = {
        f"{DEADLINES_S[kind] * 1e3:.0f}_ms": sum(stand.on_time[c] for c in range(kind, CAMERAS, len(DEADLINES_S)))
        / sum(offered[c] for c in range(kind, CAMERAS, len(DEADLINES_S)))
        for kind in range(len(DEADLINES_S))
    }
    on_time = [stand.on_time[camera] for camera in range(CAMERAS)]
    return Outcomes(
        hit=sum(on_time) / len(arrivals),
        goodput=sum(on_time) * SERVICE_S / load.duration_s,
        fairness=max(on_time) / max(1, min(on_time)),
        hopeless_runs=stand.hopeless_runs,
        late_runs=stand.late_runs,
        hit_by_deadline=by_deadline,
        by_weight={
            weight: sum(stand.on_time[c] for c in cameras) * SERVICE_S / load.duration_s / len(cameras)
            for weight, cameras in load.cameras_by_weight().items()
        },
    )


async def _serve(stand: _Stand, load: Load, arrivals: list[tuple[float, int]]) -> _Stand:
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(stand.batcher.run())
    for number, (at_s, camera) in enumerate(arrivals):
        await asyncio.sleep(at_s - loop.time())
        stand.offer(_job(number, camera, load, loop.time()))
    await asyncio.sleep(load.duration_s - loop.time())
    serving.cancel()
    return stand


def _job(number: int, camera: int, load: Load, now_s: float) -> Job:
    budget_s = DEADLINES_S[camera % len(DEADLINES_S)]
    request = Request(
        agent="bench",
        camera=str(camera),
        epoch=1,
        seq=number,
        budget_ms=budget_s * 1e3,
        weight=load.weight(camera),
        kind="mosaic",
        frame_width=_SIZE.width,
        frame_height=_SIZE.height,
        crops=[WireCrop((0, 0, 32, 32), (0, 0, 32, 32))],
        model="sleeps",
        min_score=0.5,
    )
    return Job(request, memoryview(b""), _SIZE, ReplyAddress("-", b"-"), now_s, now_s + budget_s)


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """Medians over the seeds, of the figures and of what stands behind them; ``short`` takes fewer and shorter runs."""
    seeds, duration_s = (SEEDS[:3], 40.0) if short else (SEEDS, 120.0)
    below, above = Load(0.8, duration_s), Load(1.3, duration_s)
    say("scheduling at 0.8 of the capacity")
    ours_below = [run("edf_weighted", below, seed) for seed in seeds]
    say("scheduling at 1.3 times the capacity")
    ours_above = [run("edf_weighted", above, seed) for seed in seeds]
    say("the same with bursts and with weights")
    bursty = [run("edf_weighted", Load(1.3, duration_s, burst=4.0), seed) for seed in seeds[:1]]
    weighted = run("edf_weighted", Load(1.3, duration_s, weights=(1.0, 2.0)), seeds[0])
    say("scheduling of the baselines")
    # Half as long, which flatters them: they come from an empty queue.
    half_above, half_below = Load(1.3, duration_s / 2), Load(0.8, duration_s / 2)
    fifo, edf = ([run(kind, half_above, seed) for seed in seeds] for kind in ("fifo", "edf"))
    short_queue = run("fifo", half_above, seeds[0], baseline_capacity=8)
    figures = {
        "sched_08_hit": median(outcome.hit for outcome in ours_below),
        "sched_13_goodput": median(outcome.goodput for outcome in ours_above),
        "sched_13_fifo": median(outcome.goodput for outcome in fifo),
        "sched_13_edf": median(outcome.goodput for outcome in edf),
        "sched_fairness": median(outcome.fairness for outcome in ours_above),
        "sched_08_fifo_hit": run("fifo", half_below, seeds[0]).hit,
        "sched_08_edf_hit": run("edf", half_below, seeds[0]).hit,
        "sched_13_fifo_queue_8": short_queue.goodput,
        "sched_13_fifo_queue_8_fairness": short_queue.fairness,
        "sched_13_bursts_goodput": bursty[0].goodput,
        "sched_13_bursts_fairness": bursty[0].fairness,
        "sched_13_goodput_of_weight_2": weighted.by_weight[2.0] / weighted.by_weight[1.0],
        "sched_hopeless_runs": float(sum(o.hopeless_runs for o in (*ours_below, *ours_above, *bursty, weighted))),
        "sched_13_late_runs": median(float(outcome.late_runs) for outcome in ours_above),
    }
    for deadline, hit in ours_above[0].hit_by_deadline.items():
        figures[f"sched_13_hit_{deadline}"] = hit
    return figures
