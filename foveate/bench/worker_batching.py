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
from foveate.load.stand import Stand, started

Say = Callable[[str], None]
AGENTS = 4
OVERLOAD = 1.3
FAR = 3.0
"""Times what one thread carries: far too much for two."""
MISSED = 0.01


@dataclass(frozen=True, slots=True)
class Extent:
    """How long a run is, how often one is repeated, and at which rates the highest is looked for: as shares of the
    goodput under far too much load.
    """

    duration_s: float
    rounds: int
    shares: Sequence[float] = ()


SHORT = Extent(2.0, 1, (0.75, 0.9, 1.05))
FULL = Extent(5.0, 4, (0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.45))


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


async def missed_at(
    case: Case, sides: Sequence[Rival], about_per_s: Mapping[str, float], extent: Extent, say: Say
) -> dict[str, dict[float, list[float]]]:
    """The share that each of the rivals missed at rates around what it carries, round by round: by turns and with the
    same course of chance, so that what else the machine does meets them alike.
    """
    missed: dict[str, dict[float, list[float]]] = {side.name: {} for side in sides}
    for turn in range(extent.rounds):
        for place, share in enumerate(extent.shares):
            for side in sides if (turn + place) % 2 == 0 else list(reversed(sides)):
                load, rate_per_s = replace(case.load(extent.duration_s), seed=turn), share * about_per_s[side.name]
                done = await run_at(side.stand, load, side.pictures, rate_per_s)
                missed[side.name].setdefault(rate_per_s, []).append(done.summary.miss_share)
                say(f"  {case.name}, {side.name}: {told(done)}")
    return missed


def carried_per_s(missed: Mapping[float, Sequence[float]]) -> float:
    """The highest goodput with at most 1 % misses, by the median of the rounds: where between two rates the line of
    their misses crosses that. 0 where the lowest rate missed more; the highest one's where none did.
    """
    passed = 0.0, 0.0
    for rate_per_s, shares in sorted(missed.items()):
        share = median(shares)
        if share > MISSED:
            reached = (MISSED - passed[1]) / (share - passed[1])
            return (1 - MISSED) * (passed[0] + reached * (rate_per_s - passed[0])) if passed[0] else 0.0
        passed = rate_per_s, share
    return passed[0] * (1 - passed[1])


def carries_more(missed: Mapping[float, Sequence[float]]) -> bool:
    """Whether no rate that was tried had more than 1 % misses: then what is carried is not known, only that it is no
    less than the highest.
    """
    return all(median(shares) <= MISSED for shares in missed.values())


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


async def batching(case: Case, extent: Extent, say: Say) -> dict[str, float]:
    """No batching against deadline batching on two threads, and the latter past its capacity.

    ``batch_goodput_gain`` compares the goodput at the highest rates with at most 1 % misses: the P99 of both is then
    the deadline. It is NaN where no batching answered every rate that was tried: what it carries would be understated.
    ``batch_overload_gain`` compares the goodput at the same rate above both.
    """
    async with rivals(case, _kinds(case)) as sides:
        rough = await in_turns(case, sides, FAR * case.first_per_s, replace(extent, rounds=1), say)
        about_per_s = {name: max(1.0, goodput_per_s(runs)) for name, runs in rough.items()}
        missed = await missed_at(case, sides, about_per_s, extent, say)
        none, ours = (carried_per_s(missed[side.name]) for side in sides)
        for name in (side.name for side in sides if carries_more(missed[side.name])):
            say(f"doubtful: {case.name}, {name}: every rate that was tried was answered, it carries more")
        past = await in_turns(case, sides, OVERLOAD * (max(none, ours) or max(about_per_s.values())), extent, say)
    every = [each for runs in past.values() for each in runs]
    return {
        "batch_none_per_s": none,
        "batch_deadline_per_s": ours,
        "batch_goodput_gain": math.nan if carries_more(missed["none"]) else ratio(ours, none),
        "batch_overload_gain": ratio(goodput_per_s(past["deadline"]), goodput_per_s(past["none"])),
        "batch_overload_goodput": ratio(goodput_per_s(past["deadline"]), ours),
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
