"""Queue, admission and batch policy together, on virtual time, where batches gain much: l(b) = 5 + 1.2 b ms."""

import asyncio
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from cloud_worker.batcher import Batcher, Policies
from cloud_worker.jobs import Job, ReplyAddress
from cloud_worker.outcomes import Answered, Outcome
from cloud_worker.queue import RequestQueue
from cloud_worker.replies import Durations
from cloud_worker.warm_up import RunTime
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.admission import AdmissionBounds, DeadlineAdmission
from pipeline.policies.batch import BATCH_KINDS
from pipeline.timing import LoopClock, run_virtual
from tests.support.workers import make_request

MAX_BATCH = 8
SLO_S = 0.05
CAPACITY_PER_S = MAX_BATCH / (0.005 + 0.0012 * MAX_BATCH)
PICTURE = np.zeros((32, 32, 3), np.uint8)
SIZE = Size(32, 32)


def run_s(batch: int) -> float:
    return 0.005 + 0.0012 * batch


class Gaining:
    async def detect(self, model: str, images: Sequence[Image], min_score: float) -> list[Detections] | str:
        await asyncio.sleep(run_s(len(images)))
        return [Detections.none()] * len(images)


def bursty(share: float, duration_s: float, seed: int) -> list[float]:
    """Moments of arrival: a Poisson process that turns, twice a second or so, between 1.6 and 0.4 of its rate."""
    rng = Random(seed)
    moments: list[float] = []
    at_s, factor, turn_s = 0.0, 1.6, rng.expovariate(2)
    while at_s < duration_s:
        step_s = rng.expovariate(share * CAPACITY_PER_S * factor)
        if at_s + step_s < turn_s:
            at_s += step_s
            moments.append(at_s)
        else:
            at_s, factor, turn_s = turn_s, 2 - factor, turn_s + rng.expovariate(2)
    return moments


def in_time_and_late(kind: str, moments: Sequence[float], window_s: float = 0.0) -> tuple[float, int]:
    """The share that was answered within 50 ms, and how many were run and came too late."""
    answered_s: list[float] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()

        def deliver(job: Job, outcome: Outcome, spent: Durations) -> None:
            if isinstance(outcome, Answered):
                answered_s.append(loop.time() - job.arrived_s)

        queue = RequestQueue()
        policies = Policies(DeadlineAdmission(), AdmissionBounds(64, 10**9), BATCH_KINDS[kind](window_s), MAX_BATCH)
        batcher = Batcher(policies, queue, Gaining(), LoopClock(), deliver)
        batcher.warmed(RunTime("m", SIZE, batch, run_s(batch)) for batch in range(1, MAX_BATCH + 1))
        serving = asyncio.create_task(batcher.run())
        for seq, moment_s in enumerate(moments):
            await asyncio.sleep(moment_s - loop.time())
            now_s = loop.time()
            request = make_request(seq, camera=f"c{seq % 8}")
            job = Job(request, memoryview(b""), SIZE, ReplyAddress("t/a", b"c"), now_s, now_s + SLO_S)
            if batcher.admit(job) is None:
                queue.next_encoded()
                queue.decoded(job, PICTURE)
                batcher.wake()
        await asyncio.sleep(1)
        serving.cancel()

    run_virtual(scene())
    in_time = sum(took_s <= SLO_S + 1e-9 for took_s in answered_s)
    return in_time / len(moments), len(answered_s) - in_time


@pytest.mark.parametrize("share", [0.1, 0.8, 1.1])
def test_deadline_batching_has_at_least_as_much_in_time_as_any_other_policy_and_nothing_late(share: float) -> None:
    moments = bursty(share, 2.0, seed=2)
    ours, late = in_time_and_late("deadline", moments, 0.005)
    others = {
        "none": in_time_and_late("none", moments)[0],
        "as Triton by default": in_time_and_late("fixed_window", moments)[0],
        "as Clipper": in_time_and_late("aimd", moments)[0],
    }
    assert late == 0
    assert ours >= max(others.values()), others
    if share > 0.5:
        assert ours >= 1.5 * others["none"]
