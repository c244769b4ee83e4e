"""What batching by deadlines is worth where batches gain, on virtual time; and that it costs nothing at low load.

``sim_batch_gain`` is the highest rate with at most 1 % misses over that of no batching; ``two_workers_gain`` that of
two workers over that of one. Both are the middle one of several courses of chance, since a course has few bursts.
``sim_batch_least_lead`` holds all policies against each other from a tenth of the capacity to half as much again as
there is, at the same arrivals: the smallest lead in the share answered in time over the best of the others.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median

from foveate.bench.batch_stand import CAMERAS, CAPACITY_PER_S, EACH_S, FIXED_S, USUAL_PX, Tally, Way, serve
from foveate.bench.worker_batching import SMALL, Extent, in_turns, rivals
from foveate.load.arrivals import Arrival, Mix, arrivals
from foveate.load.outcomes import End, Served
from foveate.load.runs import Measured, run_at
from foveate.load.search import RateSearch

Say = Callable[[str], None]
MISSED = 0.01
SLO_S = 0.05
OURS = Way("deadline", window_s=0.005)
NONE = Way("none")
OTHERS: Mapping[str, Way] = {
    "none": NONE,
    "triton_default": Way("fixed_window", 0.0),
    "triton_1_ms": Way("fixed_window", 0.001),
    "triton_2_ms": Way("fixed_window", 0.002),
    "triton_5_ms": Way("fixed_window", 0.005),
    "aimd": Way("aimd"),
}
SAME = Mix((SLO_S,), (USUAL_PX,), CAMERAS)
MIXED = Mix((0.025, 0.05, 0.15), (USUAL_PX, (USUAL_PX[0], 2 * USUAL_PX[1])), CAMERAS)
MIXES = {"same": (SAME, 0.0), "mixed_varying": (MIXED, 0.12), "mixed": (MIXED, 0.0)}
"""What is asked, and how far run times vary (log-normal)."""
LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3, 1.5)
"""Shares of what a worker does in full batches of the usual size."""
IDLE_LOAD = 0.1
TRIAL_S, TRIAL_PER_S = 3.0, 6.0
"""So long and so densely requests come from which the time of one is taken."""


@dataclass(frozen=True, slots=True)
class Course:
    """A course of chance: bursty arrivals for ``duration_s`` seconds, drawn from a seed."""

    seed: int
    duration_s: float

    def arrivals(self, rate_per_s: float, mix: Mix = SAME) -> list[Arrival]:
        return arrivals("bursty", rate_per_s, self.duration_s, self.seed, mix)


def highest_rate(way: Way, course: Course, first_per_s: float, workers: int = 1) -> float:
    """The highest rate per second with at most 1 % misses; between it and one 2 % above, the first miss too many."""
    search = RateSearch(first_per_s, MISSED, stride=1.2, resolution=1.02, runs=1)
    while (rate_per_s := search.next_rate) is not None:
        offered = course.arrivals(rate_per_s)
        done = serve(way, offered, workers=workers, most_missed=MISSED * len(offered))
        search.tell(len(offered), done.missed)
    best = search.found.best
    return 0.0 if best is None else best.rate_per_s


def gains(courses: Iterable[Course], say: Say) -> dict[str, float]:
    """Batching against none, and two workers against one, course by course; the middle ones, and how far they vary."""
    single_per_s = 1 / (FIXED_S + EACH_S)
    none, ours, two = list[float](), list[float](), list[float]()
    for course in courses:
        none.append(highest_rate(NONE, course, 0.45 * single_per_s))
        ours.append(highest_rate(OURS, course, 0.5 * CAPACITY_PER_S))
        two.append(highest_rate(OURS, course, 2 * ours[-1], workers=2))
        say(f"  1 % misses at {none[-1]:.0f} per s without batching, {ours[-1]:.0f} with, {two[-1]:.0f} of two workers")
    figures = {"sim_batch_none_per_s": median(none), "sim_batch_deadline_per_s": median(ours)}
    figures |= _middle("sim_batch_gain", [a / b for a, b in zip(ours, none, strict=True)])
    return figures | _middle("two_workers_gain", [a / b for a, b in zip(two, ours, strict=True)])


def _middle(name: str, values: list[float]) -> dict[str, float]:
    return {name: median(values), f"{name}_least": min(values), f"{name}_most": max(values)}


def tallies(way: Way, courses: Iterable[Course], load: float, mix: Mix, spread: float = 0.0) -> list[Tally]:
    """What becomes of a load, course by course."""
    per_s = load * CAPACITY_PER_S
    return [serve(way, each.arrivals(per_s, mix), spread=spread, seed=each.seed) for each in courses]


def leads(
    courses: list[Course], loads: Iterable[float], mixes: Mapping[str, tuple[Mix, float]], say: Say
) -> dict[str, float]:
    """Ours over the best of the others in the share answered in time, at each load and for each mix.

    The smallest lead and the mean one, over all courses together; and the smallest in any single course.
    """
    found: dict[str, float] = {}
    single: list[float] = []
    for name, (mix, spread) in mixes.items():
        for load in loads:
            ours = tallies(OURS, courses, load, mix, spread)
            others = {other: tallies(way, courses, load, mix, spread) for other, way in OTHERS.items()}
            best = max(others, key=lambda other: _hit(others[other]))
            found[f"sim_batch_lead_{name}_{load:.1f}"] = _hit(ours) - _hit(others[best])
            single += [
                _hit(ours[at : at + 1]) - max(_hit(other[at : at + 1]) for other in others.values())
                for at in range(len(courses))
            ]
            told = f"{_hit(ours):.4f} in time, {best} {_hit(others[best]):.4f}"
            say(f"  {name} at {load:.1f} of the capacity: {told}")
    return {
        "sim_batch_least_lead": min(found.values()),
        "sim_batch_mean_lead": fmean(found.values()),
        "sim_batch_least_lead_in_a_course": min(single),
    } | found


def _hit(done: Iterable[Tally]) -> float:
    """The share that was answered in time."""
    every = list(done)
    return sum(each.in_time for each in every) / sum(each.offered for each in every)


async def idle_wait(short: bool, say: Say) -> dict[str, float]:
    """A real model on two threads at a tenth of what it can do: the wait for company, and the way there and back.

    Batching and none take turns at the same arrivals; the waits are what the worker's own replies say.
    """
    extent = Extent(6.0, rounds=1) if short else Extent(12.0, rounds=3)
    kinds = {kind: [SMALL.worker(threads=2, batch=kind)] for kind in ("none", "deadline")}
    async with rivals(SMALL, kinds) as sides:
        tried = await run_at(sides[0].stand, SMALL.load(TRIAL_S), sides[0].pictures, TRIAL_PER_S)
        if not (alone := run_and_answered([tried])):
            say("  left out: the worker answered nothing, so busy is this machine with other things")
            return {}
        run_s = median(each.infer_ms for each in alone) / 1e3
        say(f"  {SMALL.name}: a run takes {run_s * 1e3:.1f} ms")
        done = await in_turns(SMALL, sides, IDLE_LOAD / run_s, extent, say)
    waits_ms = sorted(each.batch_wait_ms for each in run_and_answered(done["deadline"]))
    if not waits_ms or not run_and_answered(done["none"]):
        say("  left out: a worker answered nothing, so busy is this machine with other things")
        return {}
    ours_ms, none_ms = (_p50_ms(done[kind]) for kind in ("deadline", "none"))
    return {
        "batch_idle_wait_ms": waits_ms[math.ceil(0.99 * len(waits_ms)) - 1],
        "batch_idle_mean_wait_ms": fmean(waits_ms),
        "batch_idle_answers": float(len(waits_ms)),
        "batch_idle_p50_ms": ours_ms,
        "batch_idle_none_p50_ms": none_ms,
    }


def run_and_answered(runs: Iterable[Measured]) -> list[Served]:
    """What the worker says of those that it has run and answered; a refusal has neither run nor wait."""
    return [
        each.served
        for run in runs
        for each in run.outcomes
        if each.end is End.ANSWERED and each.served is not None and each.served.source == "run"
    ]


def _p50_ms(runs: list[Measured]) -> float:
    return median(took_ms for run in runs for each in run.outcomes if (took_ms := each.round_trip_ms) is not None)


def measure(short: bool, say: Say) -> Mapping[str, float]:
    """The figures and what stands behind them; ``short`` takes fewer and shorter courses."""
    say("batching where batches gain: the highest rates")
    figures = gains([Course(seed, 12.0 if short else 40.0) for seed in range(1, 3 if short else 5)], say)
    say("batching where batches gain: policies side by side")
    grid, mixes = [Course(seed, 4.0 if short else 8.0) for seed in range(11, 12 if short else 13)], dict(MIXES)
    if short:
        del mixes["mixed"]
    figures |= leads(grid, LOADS[1::4] if short else LOADS, mixes, say)
    say("batching with a real model at low load")
    return figures | asyncio.run(idle_wait(short, say))
