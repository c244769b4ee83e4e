"""What batching gains with a real model on two threads, and what is left of it past the capacity."""

import contextlib
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
MISSED = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    """A model at a size of pictures, (height, width), with the deadline that its requests have."""

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


SMALL = Case("nanodet-g", (192, 256), 0.15, 60.0)
WHOLE = Case("nanodet-g", (416, 576), 0.4, 12.0)


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


async def highest_rates(case: Case, sides: Sequence[Rival], duration_s: float, say: Say) -> dict[str, RateSearch]:
    """The search for each of the rivals, by turns, so that what else the machine does meets them alike."""
    searches = {side.name: RateSearch(case.first_per_s, MISSED, stride=1.3, runs=2) for side in sides}
    turn = 0
    while any(search.next_rate is not None for search in searches.values()):
        turn += 1
        for side in sides:
            search = searches[side.name]
            if (rate_per_s := search.next_rate) is None:
                continue
            load = replace(case.load(duration_s), seed=turn)  # the same course of chance for all
            done = await run_at(side.stand, load, side.pictures, rate_per_s)
            search.tell(done.summary.offered, done.summary.missed)
            say(f"  {case.name}, {side.name}: {told(done)}")
    return searches


async def in_turns(
    case: Case, sides: Sequence[Rival], rate_per_s: float, rounds: int, duration_s: float, say: Say
) -> dict[str, list[Measured]]:
    """The same arrivals to each of the rivals, round by round."""
    done: dict[str, list[Measured]] = {side.name: [] for side in sides}
    for turn in range(rounds):
        for side in sides if turn % 2 == 0 else list(reversed(sides)):
            load = replace(case.load(duration_s), seed=100 + turn)
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


async def batching(case: Case, short: bool, say: Say) -> dict[str, float]:
    """No batching against deadline batching on two threads, and the latter past its capacity.

    ``batch_goodput_gain`` compares the goodput at the highest rates with at most 1 % misses: the P99 of both is then
    the deadline. ``batch_overload_gain`` compares it at the same rate above both.
    """
    duration_s, rounds = (3.0, 2) if short else (6.0, 4)
    kinds = {kind: [case.worker(threads=2, batch=kind)] for kind in ("none", "deadline")}
    async with rivals(case, kinds) as sides:
        searches = await highest_rates(case, sides, duration_s, say)
        none, ours = (highest_per_s(searches[kind]) for kind in ("none", "deadline"))
        past = await in_turns(case, sides, OVERLOAD * max(none, ours), rounds, duration_s, say)
        under = await in_turns(case, sides[1:], ours, rounds, duration_s, say) if ours else {}
    carried, at_capacity = goodput_per_s(past["deadline"]), goodput_per_s(under["deadline"]) if under else 0.0
    figures = {"batch_none_per_s": none, "batch_deadline_per_s": ours}
    figures["batch_overload_gain"] = _ratio(carried, goodput_per_s(past["none"]))
    figures["batch_goodput_gain"] = _ratio(ours, none)
    figures["overload_goodput"] = _ratio(carried, at_capacity)
    every = [each for runs in (*past.values(), *under.values()) for each in runs]
    figures["batch_others_cores"] = median(each.spent.others_s / each.summary.duration_s for each in every)
    return figures


def _ratio(value: float, base: float) -> float:
    return value / base if base > 0 else 0.0
