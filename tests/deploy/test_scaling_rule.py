"""The thresholds of the autoscaler, with real workers on virtual time: enough workers, and then peace."""

import asyncio
import math
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml

from pipeline.timing import run_virtual
from pipeline.wire.messages import Refusal, WorkerState
from tests.support.detectors import ScriptedDetector
from tests.support.workers import Bench, make_request

FILE = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "components" / "keda" / "scaledobject.yaml"
SPEC = yaml.safe_load(FILE.read_text("utf-8"))["spec"]
THRESHOLDS = {trigger["name"]: float(trigger["metadata"]["threshold"]) for trigger in SPEC["triggers"]}
FEWEST, MOST = int(SPEC["minReplicaCount"]), int(SPEC["maxReplicaCount"])
TOLERANCE = 0.1
"""A difference of this share is none to the autoscaler of Kubernetes."""
RUN_S = 0.04
ROUND_S = 10.0
BUDGET_MS = 150.0


@dataclass(frozen=True)
class Round:
    """What Prometheus would have seen of some workers, and the share of requests that were answered."""

    workers: int
    wait_s: float
    refused: float
    busy: float
    answered: float

    def wanted(self) -> int:
        """How many workers the triggers ask for, within the bounds."""
        load = self.busy / max(1 - self.refused, 0.05)
        most = max(self.wait_s / THRESHOLDS["wait"], load / THRESHOLDS["load"] / self.workers)
        wanted = self.workers if abs(most - 1) <= TOLERANCE else math.ceil(self.workers * most)
        return min(max(wanted, FEWEST), MOST)


@cache
def offered(workers: int, rate_hz: float) -> Round:
    """A round with Poisson arrivals."""

    async def scene() -> Round:
        made, arrivals = Bench(), random.Random(workers)
        for _ in range(workers):
            made.add_worker(ScriptedDetector(run_s=lambda batch: RUN_S * batch), batch="none")
        requester = asyncio.create_task(made.requester.transport.run())
        await made.connected()
        count = int(rate_hz * ROUND_S)
        for seq in range(count):
            await asyncio.sleep(arrivals.expovariate(rate_hz))
            await made.requester.send(make_request(seq, budget_ms=BUDGET_MS))
        await asyncio.sleep(BUDGET_MS / 1e3)
        states = [service.worker_state() for service in made.services]
        for service in made.services:
            service.stop()
        await asyncio.gather(*made.tasks)
        requester.cancel()
        return seen(states, count)

    return run_virtual(scene())


def seen(states: list[WorkerState], count: int) -> Round:
    for_want = (Refusal.QUEUE_FULL, Refusal.INFEASIBLE, Refusal.EXPIRED)
    refused = sum(state.refused.get(each.value, 0) for state in states for each in for_want)
    return Round(
        len(states),
        max(state.queue.wait_ms or 0.0 for state in states if state.queue) / 1e3,
        refused / count,
        sum(state.batches.busy_s for state in states if state.batches) / ROUND_S,
        sum(state.served for state in states) / count,
    )


def grown(start: int, rate_hz: float) -> list[Round]:
    """Rounds until the triggers ask for what there is."""
    rounds = [offered(start, rate_hz)]
    while (wanted := rounds[-1].wanted()) != rounds[-1].workers:
        rounds.append(offered(wanted, rate_hz))
        assert len(rounds) <= 3, f"no peace: {[each.workers for each in rounds]}"
    return rounds


@pytest.mark.parametrize("load", [0.4, 2.6])
@pytest.mark.parametrize("start", [1, MOST])
def test_the_triggers_come_to_rest_where_nearly_all_is_answered_and_no_worker_is_too_many(
    start: int, load: float
) -> None:
    rest = grown(start, load / RUN_S)[-1]
    assert rest.answered >= 0.98
    assert load < rest.workers <= max(2, math.ceil(load / THRESHOLDS["load"]))


def test_how_far_too_much_work_there_is_shows_in_refusals_although_the_wait_stays_short() -> None:
    twice, more = offered(1, 1.5 / RUN_S), offered(1, 2.6 / RUN_S)
    assert more.wait_s < BUDGET_MS / 1e3
    assert (twice.wanted(), more.wanted()) == (3, 5)
