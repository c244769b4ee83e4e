"""When requests arrive, and what they ask: drawn before the run, so that a slow server cannot slow them down.

A closed loop, in which each sender waits for its answer, sends less to a server that is slow, and does not count what
it has not sent (G. Tene's coordinated omission). Here every request has its moment, from which its time counts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from pipeline.errors import ConfigError

HeightWidth = tuple[int, int]
Moments = Callable[[float, float, Random], Iterator[float]]

CALM, BURST = 0.5, 2.0
"""The rates of the two states, as multiples of the mean: a burst is four times as dense."""
CALM_S, BURST_S = 1.0, 0.5
"""Their mean lengths. A third of the time is burst, so that the mean is 1."""


@dataclass(frozen=True, slots=True)
class Mix:
    """What requests are like, each drawn with equal chance: ``deadlines_s`` from their moment, ``sizes_px`` (height,
    width), and which of ``agents`` asks. ``repeat_share`` of them show a picture that was shown before.

    Raises ConfigError.
    """

    deadlines_s: tuple[float, ...] = (0.15,)
    sizes_px: tuple[HeightWidth, ...] = ((192, 256),)
    agents: int = 1
    repeat_share: float = 0.0

    def __post_init__(self) -> None:
        if not self.deadlines_s or not all(each > 0 for each in self.deadlines_s):
            raise ConfigError(f"load: deadlines are {self.deadlines_s}; name at least one, all above 0")
        if not self.sizes_px or not all(side > 0 for size in self.sizes_px for side in size):
            raise ConfigError(f"load: sizes are {self.sizes_px}; name at least one, all sides above 0")
        if self.agents < 1:
            raise ConfigError(f"load: {self.agents} agents; at least 1 must ask")
        if not 0 <= self.repeat_share <= 1:
            raise ConfigError(f"load: the share of repeats is {self.repeat_share}; it must be 0 to 1")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: its moment ``at_s`` from the beginning, for how long its answer is of use, and what it shows.

    ``size_px`` is (height, width); equal ``picture`` and size are the same picture to the last byte.
    """

    number: int
    at_s: float
    deadline_s: float
    size_px: HeightWidth
    agent: int
    picture: int


def arrivals(process: str, rate_per_s: float, duration_s: float, seed: int, mix: Mix | None = None) -> list[Arrival]:
    """Draw the requests of ``duration_s`` seconds; the same ones for the same arguments. Raises ConfigError.

    Moments and contents come from generators of their own: the moments stay when the mix changes.
    """
    if process not in PROCESSES:
        raise ConfigError(f"load: arrivals are {process!r}; choose one of {', '.join(PROCESSES)}")
    if not rate_per_s > 0 or not duration_s > 0:
        raise ConfigError(f"load: {rate_per_s:g} requests per s for {duration_s:g} s; both must be above 0")
    mix = mix or Mix()
    moments, contents = Random(f"moments {seed}"), Random(f"contents {seed}")
    drawn: list[Arrival] = []
    shown: list[tuple[HeightWidth, int]] = []
    for number, at_s in enumerate(PROCESSES[process](rate_per_s, duration_s, moments)):
        if shown and contents.random() < mix.repeat_share:
            size_px, picture = contents.choice(shown)
        else:
            size_px, picture = contents.choice(mix.sizes_px), number
            shown.append((size_px, picture))
        deadline_s, agent = contents.choice(mix.deadlines_s), contents.randrange(mix.agents)
        drawn.append(Arrival(number, at_s, deadline_s, size_px, agent, picture))
    return drawn


def _poisson(rate_per_s: float, duration_s: float, rng: Random) -> Iterator[float]:
    at_s = rng.expovariate(rate_per_s)
    while at_s < duration_s:
        yield at_s
        at_s += rng.expovariate(rate_per_s)


def _bursty(rate_per_s: float, duration_s: float, rng: Random) -> Iterator[float]:
    """A Markov-modulated Poisson process of two states (W. Fischer and K. Meier-Hellstern, Performance Evaluation 18,
    1993): Poisson within each, and what is left of a gap when the state changes is drawn anew.
    """
    at_s, burst = 0.0, rng.random() < BURST_S / (CALM_S + BURST_S)
    while at_s < duration_s:
        turn_s = at_s + rng.expovariate(1 / (BURST_S if burst else CALM_S))
        density_per_s = rate_per_s * (BURST if burst else CALM)
        at_s += rng.expovariate(density_per_s)
        while at_s < min(turn_s, duration_s):
            yield at_s
            at_s += rng.expovariate(density_per_s)
        at_s, burst = turn_s, not burst


PROCESSES: Mapping[str, Moments] = {"poisson": _poisson, "bursty": _bursty}
"""Arrival processes by name; both have the same mean rate."""
