"""What batching gains with a real model on two threads, and what is left of it past the capacity."""

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from cloud_worker.settings import ServedModel, WorkerSettings
from foveate.load.arrivals import HeightWidth, Mix
from foveate.load.pictures import Pictures
from foveate.load.runs import Load, Measured, run_at, warm_in
from foveate.load.search import RateSearch
from foveate.load.stand import Stand, started

Say = Callable[[str], None]
AGENTS = 4
OVERLOAD = 1.3
FAR = 3.0
"""Times what one thread carries: far too much for two."""
MISSED = 0.01
BELOW = 0.85
"""Of the goodput under far too much load a search begins at so much: near the highest rate that is answered."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How long a run is, how often one is repeated, and how many turns a search has."""

    duration_s: float
    rounds: int
    turns: int


SHORT = Extent(2.0, 1, 3)
FULL = Extent(5.0, 3, 6)


@dataclass(frozen=True, slots=True)
class Case:
    """A model at a size of pictures, (height, width), with the deadline of its requests and about what one thread
    carries, per second.
    """

    model: str
    size_px: HeightWidth
    deadline_s: float
    first_per_s: float

    @property
    def name(self) -> str:
        return f"{self.model}, {self.size_px[0]}x{self.size_px[1]}"

    def load(self, duration_s: float) -> Load:
        """The load of its runs, Poisson."""
        return Load("poisson", duration_s, 1, Mix((self.deadline_s,), (self.size_px,), AGENTS))

    def worker(self, **settings: object) -> WorkerSettings:
        """A worker for it; everything else as in ``settings``."""
        return replace(WorkerSettings((ServedModel(self.model),)), **settings)  # type: ignore[arg-type] # its fields, by name


SMALL = Case("nanodet-g", (192, 256), 0.15, 90.0)
WHOLE = Case("nanodet-g", (416, 576), 0.4, 20.0)


@dataclass(frozen=True, slots=True)
class Rival:
    """A stand under comparison, and the pictures that it is asked about."""

    name: str
    stand: Stand
    pictures: Pictures


@contextlib.asynccontextmanager
async def rivals(case: Case, workers: Mapping[str, Sequence[WorkerSettings]]) -> AsyncIterator[list[Rival]]:
    """Stands by name, all warm. They take turns: whoever is not asked waits and takes no CPU."""
    pictures = Pictures([case.size_px])
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for name, settings in workers.items():
            stand = await stack.enter_async_context(started(settings, AGENTS))
            await warm_in(stand, case.load(1.0), pictures)
            made.append(Rival(name, stand, pictures))
        yield made


async def highest_rates(
    case: Case, sides: Sequence[Rival], first_per_s: Mapping[str, float], extent: Extent, say: Say
) -> dict[str, RateSearch]:
    """The search for each of the rivals, by turns, so that what else the machine does meets them alike."""
    searches = {
        name: RateSearch(max(1.0, rate), MISSED, stride=1.12, resolution=1.06, runs=2)
        for name, rate in first_per_s.items()
    }
    for turn in range(extent.turns):
        for side in sides:
            search = searches[side.name]
            if (rate_per_s := search.next_rate) is None:
                continue
            load = replace(case.load(extent.duration_s), seed=turn)  # the same course of chance for all
            done = await run_at(side.stand, load, side.pictures, rate_per_s)
            search.tell(done.summary.offered, done.summary.missed)
            say(f"  {case.name}, {side.name}: {told(done)}")
    return searches


async def in_turns(
    case: Case, sides: Sequence[Rival], rate_per_s: float, extent: Extent, say: Say
) -> dict[str, list[Measured]]:
    """The same arrivals to each of the rivals, round by round."""
    done: dict[str, list[Measured]] = {side.name: [] for side in sides}
    for turn in range(extent.rounds):
        for side in sides if turn % 2 == 0 else list(reversed(sides)):
            load = replace(case.load(extent.duration_s), seed=100 + turn)
            measured = await run_at(side.stand, load, side.pictures, rate_per_s)
            done[side.name].append(measured)
            say(f"  {case.name}, {side.name}: {told(measured)}")
    return done


def told(measured: Measured) -> str:
    """A run in one line."""
    summary, spent = measured.summary, measured.spent
    p99 = summary.segments["round_trip"]
    sizes = " ".join(f"{count}x{size}" for size, count in summary.batch_sizes.items())
    return (
        f"{summary.offered_per_s:.1f} offered per s, {summary.goodput_per_s:.1f} in time, {summary.miss_share:.2%}"
        f" missed, P99 {0.0 if p99 is None else p99.p99_ms:.0f} ms, answers by batch size {sizes or 'none'},"
        f" other programs {spent.others_s / summary.duration_s:.2f} cores"
    )


def goodput_per_s(runs: Sequence[Measured]) -> float:
    """The median of the runs."""
    return median(each.summary.goodput_per_s for each in runs)


def highest_per_s(search: RateSearch) -> float:
    """The goodput at the highest rate that passed; 0 where none did."""
    best = search.found.best
    return 0.0 if best is None else best.rate_per_s * (1 - best.miss_share)


async def batching(case: Case, extent: Extent, say: Say) -> dict[str, float]:
    """No batching against deadline batching on two threads, and the latter past its capacity.

    ``batch_goodput_gain`` compares the goodput at the highest rates with at most 1 % misses: the P99 of both is then
    the deadline. ``batch_overload_gain`` compares it at the same rate above both.
    """
    async with rivals(case, _kinds(case)) as sides:
        rough = await in_turns(case, sides, FAR * case.first_per_s, replace(extent, rounds=1), say)
        starts = {name: BELOW * goodput_per_s(runs) for name, runs in rough.items()}
        searches = await highest_rates(case, sides, starts, extent, say)
        none, ours = (highest_per_s(searches[side.name]) for side in sides)
        past = await in_turns(case, sides, OVERLOAD * (max(none, ours) or max(starts.values())), extent, say)
        under = await in_turns(case, sides[1:], ours, extent, say) if ours else {}
    carried = goodput_per_s(past["deadline"])
    every = [each for runs in (*past.values(), *under.values()) for each in runs]
    return {
        "batch_none_per_s": none,
        "batch_deadline_per_s": ours,
        "batch_goodput_gain": ratio(ours, none),
        "batch_overload_gain": ratio(carried, goodput_per_s(past["none"])),
        "overload_goodput": ratio(carried, goodput_per_s(under["deadline"])) if under else math.nan,
        "batch_others_cores": others_cores(every),
    }


async def batching_past_capacity(case: Case, extent: Extent, say: Say) -> dict[str, float]:
    """The goodput of both at one rate that neither can carry."""
    async with rivals(case, _kinds(case)) as sides:
        past = await in_turns(case, sides, FAR * case.first_per_s, extent, say)
    every = [each for runs in past.values() for each in runs]
    gain = ratio(goodput_per_s(past["deadline"]), goodput_per_s(past["none"]))
    return {"batch_overload_gain": gain, "batch_others_cores": others_cores(every)}


def _kinds(case: Case) -> dict[str, list[WorkerSettings]]:
    return {kind: [case.worker(threads=2, batch=kind)] for kind in ("none", "deadline")}


def others_cores(runs: Sequence[Measured]) -> float:
    """What other programs took of the machine's cores while they ran, the median."""
    return median(each.spent.others_s / each.summary.duration_s for each in runs)


def ratio(value: float, base: float) -> float:
    """NaN where there is nothing to compare with."""
    return value / base if base > 0 else math.nan
