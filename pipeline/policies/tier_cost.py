"""What an answer costs: latency, bytes, energy, and what it falls short by, each of them 1 where it is all it may be.

Weights in mixed units mean nothing, so that each part is first divided by what may be spent of it, as VideoEdge does
with the demands of a plan (Hung et al., SEC 2018) and DeepDecision with the metrics that it weighs (Ran et al.,
INFOCOM 2018). Latency counts by its mean: that a bad case would be late keeps a target from being asked at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipeline.errors import ConfigError


class Tier(StrEnum):
    """A level at which requests are answered, from the nearest to the farthest."""

    DEVICE = "device"  # the agent itself
    EDGE = "edge"  # a worker on site
    CLOUD = "cloud"  # a worker elsewhere: what goes there leaves the site


NEAREST_FIRST = tuple(Tier)


@dataclass(frozen=True, slots=True)
class Arrival:
    """An answer: when it is there after the asking, and its shortfall, the part of the best F1 that it lacks."""

    at_ms: float
    shortfall: float


def mean_shortfall(first: Arrival, second: Arrival, until_ms: float) -> float:
    """What is lacking on the average from the first answer on until the request's time is over: the longer the better
    answer takes, the less it is worth.
    """
    if until_ms <= first.at_ms:
        return first.shortfall
    waiting = min(1.0, max(0.0, second.at_ms - first.at_ms) / (until_ms - first.at_ms))
    return second.shortfall + waiting * (first.shortfall - second.shortfall)


@dataclass(frozen=True, slots=True)
class Expense:
    """What a request takes: ``latency_ms`` until its first answer, ``billed_bytes`` sent, each times what a byte on its
    way counts, ``energy_j`` joules, and the ``shortfall`` of its answers, averaged over their time.
    """

    latency_ms: float
    billed_bytes: float = 0.0
    energy_j: float = 0.0
    shortfall: float = 0.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one request may take; a part that takes all of it costs 1. That of latency is the request's own deadline."""

    billed_bytes: float = 16_000.0
    energy_j: float = 2.0
    shortfall: float = 0.1

    def __post_init__(self) -> None:
        for name in ("billed_bytes", "energy_j", "shortfall"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"tiers: the allowance {name} is {getattr(self, name)}; it must be above 0")


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part counts; what matters is how they compare. Raises ConfigError."""

    latency: float
    bytes: float
    energy: float
    shortfall: float = 0.5

    def __post_init__(self) -> None:
        for name in ("latency", "bytes", "energy", "shortfall"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"tiers: the weight {name} is {getattr(self, name)}; it must not be negative")
        if not self.total > 0:
            raise ConfigError("tiers: all weights are 0, so that nothing can be chosen by them; set at least one above")

    @property
    def total(self) -> float:
        return self.latency + self.bytes + self.energy + self.shortfall


PRESETS: Mapping[str, Weights] = {
    "latency": Weights(0.8, 0.1, 0.1),
    "bandwidth": Weights(0.1, 0.8, 0.1),
    "energy": Weights(0.1, 0.1, 0.8),
    "balanced": Weights(1 / 3, 1 / 3, 1 / 3),
}


def cost(expense: Expense, deadline_ms: float, allowance: Allowance, weights: Weights) -> float:
    """The weighted mean of the parts; 1 where each takes all that it may. ``deadline_ms``, above 0, is the request's
    whole time and not what remains of it, so that waiting makes nothing cheaper or dearer than something else.
    """
    return (
        weights.latency * max(0.0, expense.latency_ms) / deadline_ms
        + weights.bytes * expense.billed_bytes / allowance.billed_bytes
        + weights.energy * expense.energy_j / allowance.energy_j
        + weights.shortfall * expense.shortfall / allowance.shortfall
    ) / weights.total
