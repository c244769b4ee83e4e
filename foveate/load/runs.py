"""Runs at given rates, and the search for the highest that is still answered, against whatever a stand has."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from foveate.load.arrivals import Mix, arrivals
from foveate.load.outcomes import Outcome, Summary, summarise
from foveate.load.pictures import Pictures
from foveate.load.search import Found, RateSearch, Tried
from foveate.load.stand import Spent, Stand

WARM_S = 2.0
WARM_PER_S = 10.0
_WARM_SEED = -1


@dataclass(frozen=True, slots=True)
class Load:
    """What is offered, but for the rate: the ``process`` of arrivals, for how long, from which seed, and the mix."""

    process: str = "poisson"
    duration_s: float = 10.0
    seed: int = 1
    mix: Mix = field(default_factory=Mix)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: its outcomes in the order of the arrivals, their sum, and the CPU time that it took."""

    rate_per_s: float
    summary: Summary
    spent: Spent
    outcomes: list[Outcome] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found, every rate that it tried, and the last run at the best rate, None without one."""

    found: Found
    tried: tuple[Tried, ...]
    best: Measured | None


async def warm_in(stand: Stand, load: Load, pictures: Pictures) -> None:
    """Offer a little, uncounted: the first requests of a session and of a worker are slower than the rest."""
    warm = arrivals(load.process, WARM_PER_S, WARM_S, _WARM_SEED, replace(load.mix, repeat_share=0.0))
    await stand.generator.offer(warm, pictures)


async def run_at(stand: Stand, load: Load, pictures: Pictures, rate_per_s: float) -> Measured:
    """Offer a rate and add up what became of it."""
    requests = arrivals(load.process, rate_per_s, load.duration_s, load.seed, load.mix)
    before = stand.spent()
    outcomes = await stand.generator.offer(requests, pictures)
    spent = stand.spent().since(before)
    return Measured(rate_per_s, summarise(outcomes, load.duration_s), spent, outcomes)


async def find_highest(
    stand: Stand, load: Load, pictures: Pictures, search: RateSearch, say: Callable[[str], None]
) -> Searched:
    """Run the search; every run has a seed of its own, so that no rate is judged by one course of chance."""
    best: Measured | None = None
    runs = 0
    while (rate_per_s := search.next_rate) is not None:
        measured = await run_at(stand, replace(load, seed=load.seed + runs), pictures, rate_per_s)
        runs += 1
        search.tell(measured.summary.offered, measured.summary.missed)
        doubt = "" if measured.summary.kept_up else "; doubtful, as many went out late or not at all"
        say(f"{rate_per_s:.1f} per s: {measured.summary.miss_share:.2%} missed{doubt}")
        passed = search.found.best
        if passed is not None and passed.rate_per_s == rate_per_s:
            best = measured
    return Searched(search.found, tuple(search.tried), best)
