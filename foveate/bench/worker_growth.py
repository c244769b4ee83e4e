"""Two workers of one thread each against one, and what is felt when one of two is killed or freezes."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from cloud_worker.main import KEEPALIVE_S
from foveate.bench.worker_batching import (
    AGENTS,
    OVERLOAD,
    Case,
    Extent,
    Say,
    goodput_per_s,
    in_turns,
    others_cores,
    ratio,
    rivals,
    told,
)
from foveate.load.arrivals import Mix
from foveate.load.generator import LEAD_S
from foveate.load.outcomes import Outcome, summarise
from foveate.load.pictures import Pictures
from foveate.load.runs import Load, Measured, run_at, warm_in
from foveate.load.stand import Stand, alike, started
from foveate.load.windows import hit_windows, recovery_s, unheard

ROOMY = Case("nanodet-g", (320, 416), 0.25, 30.0)
"""A model run that is long beside what a request costs otherwise: the generator and the broker share the cores."""
FAILING = Case("nanodet-g", (192, 256), 0.15, 60.0)
STRUCK_S = 3.0
SHARE = 0.6
"""Of what one worker carries is offered while one of two fails: what is left could carry it."""
LEAST_PER_S = 10.0
"""Fewer would leave nearly empty windows."""
NOTICED_S = 1.5 * KEEPALIVE_S
"""After so long the broker closes the session of a worker that is silent."""


async def growth(extent: Extent, say: Say) -> dict[str, float]:
    """``two_workers_real_gain``: the goodput of two workers at the same share above their capacity as one."""
    case = ROOMY
    settings = case.worker(worker="growing")
    async with rivals(case, {"one": alike(settings, 1), "two": alike(settings, 2)}) as (one, two):
        rough = await in_turns(case, [one], 2 * case.first_per_s, replace(extent, rounds=1), say)
        capacity_per_s = max(1.0, goodput_per_s(rough["one"]))
        alone, both = [], []
        for _ in range(extent.rounds):  # by turns, so that what else the machine does meets them alike
            once = replace(extent, rounds=1)
            alone += (await in_turns(case, [one], OVERLOAD * capacity_per_s, once, say))["one"]
            both += (await in_turns(case, [two], OVERLOAD * 2 * capacity_per_s, once, say))["two"]
    return {
        "two_workers_real_gain": ratio(goodput_per_s(both), goodput_per_s(alone)),
        "one_worker_per_s": goodput_per_s(alone),
        "two_workers_per_s": goodput_per_s(both),
        "two_workers_generator_cores": _between_cores(both),
        "two_workers_others_cores": others_cores(both),
    }


def _between_cores(runs: Sequence[Measured]) -> float:
    """What the generator and the broker took of the cores that the workers run on, the median."""
    return median((each.spent.generator_s + each.spent.broker_s) / each.summary.duration_s for each in runs)


async def failover(short: bool, say: Say) -> dict[str, float]:
    """``failover_s``: how long the hit ratio is below what it was after one of two is killed; and after one freezes."""
    case, duration_s = FAILING, 6.0 if short else 10.0
    killed = await _struck(case, signal.SIGKILL, duration_s, say)
    figures = {f"failover_{name}": value for name, value in killed.items()}
    if not short:
        frozen = await _struck(case, signal.SIGSTOP, duration_s + NOTICED_S, say)
        figures |= {f"frozen_{name}": value for name, value in frozen.items()}
    return figures


async def _struck(case: Case, number: signal.Signals, duration_s: float, say: Say) -> dict[str, float]:
    """Two workers under load, the first of which gets a signal; the load is that of one of them."""
    pictures = Pictures([case.size_px])
    workers = alike(case.worker(worker="failing"), 2)
    async with started(workers, AGENTS) as stand:
        load = Load("poisson", duration_s, 1, Mix((case.deadline_s,), (case.size_px,), AGENTS))
        await warm_in(stand, load, pictures)
        rough = await run_at(stand, replace(load, duration_s=2.0), pictures, 4 * case.first_per_s)
        rate_per_s = max(LEAST_PER_S, SHARE * rough.summary.goodput_per_s / 2)
        strike = asyncio.create_task(_strike(stand, number))
        try:
            measured = await run_at(stand, load, pictures, rate_per_s)
        finally:
            strike.cancel()
            _thaw(stand)
    say(f"  {number.name} at {STRUCK_S:g} s: {told(measured)}; without a word {len(unheard(measured.outcomes))}")
    return _felt(measured.outcomes, duration_s)


async def _strike(stand: Stand, number: signal.Signals) -> None:
    await asyncio.sleep(LEAD_S + STRUCK_S)  # its moment counts like those of the requests
    pid = stand.workers[0].pid
    if pid is not None:
        os.kill(pid, number)


def _thaw(stand: Stand) -> None:
    """A frozen process does not hear that it is to end."""
    pid = stand.workers[0].pid
    if pid is not None:
        os.kill(pid, signal.SIGCONT)


def _felt(outcomes: Sequence[Outcome], duration_s: float) -> dict[str, float]:
    summary = summarise(outcomes, duration_s)
    windows = hit_windows(outcomes, duration_s)
    return {
        "s": recovery_s(windows, STRUCK_S, FAILING.deadline_s),
        "unheard": float(len(unheard(outcomes))),
        "answered_twice": float(summary.answered_twice),
        "least_hit_ratio": min(each.hit_ratio for each in windows),
        "offered": float(summary.offered),
        "missed": float(summary.missed),
    }
