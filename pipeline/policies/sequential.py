"""Tests that may be looked at after every value and stopped at any time: betting against a hypothesis. Pure.

A hypothesis says that the mean of what comes, given what came before, is at most a limit. Whoever bets on values above
it gains on average nothing while that is true, so by Ville's inequality a capital that starts at 1 ever reaches
1 / alpha with a probability of at most alpha, however often it is looked at and whatever depends on what
(Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024, sections 3 and 4).
The capital is spread over a grid of bets, since which one is best is not known beforehand, and a part of it is held
back and bet little by little: else a fault that begins late would first have to win back what a long good time has
lost.

An alarm for a change restarts the bets whenever they have lost: the capital of a day on which all was well must not
stand against the first bad minute. Then the mean number of values until a false alarm is at least 1 / alpha
(Shin, Ramdas and Rinaldo, E-detectors, New England Journal of Statistics in Data Science 2, 2024, section 3).
"""

import math
from dataclasses import dataclass, replace

FIRST, PATIENCE = 0.5, 20.0
"""The part of the capital that is bet from the start; how many values it takes until half of the rest is."""
SHARES = (0.05, 0.1, 0.2, 0.4, 0.65, 0.9)
"""Of the largest bet that no value can ruin."""
MOST_LOG = 200.0
"""Evidence beyond it is not counted: numbers stay finite."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The mean of values in [``low``, ``high``] is at most ``limit``, which lies between them."""

    low: float
    high: float
    limit: float

    def __post_init__(self) -> None:
        if not self.low < self.limit < self.high:
            raise ValueError(f"the limit {self.limit} is not between {self.low} and {self.high}")


@dataclass(frozen=True, slots=True)
class Bets:
    """What has been won against a hypothesis: one natural logarithm of capital for each share of ``SHARES``, and the
    capital ``reserve`` that waits.
    """

    logs: tuple[float, ...] = (math.log(FIRST),) * len(SHARES)
    reserve: float = 1.0 - FIRST
    samples: int = 0

    def __post_init__(self) -> None:
        if len(self.logs) != len(SHARES) or max(self.logs) > MOST_LOG:  # they may come from a file
            raise ValueError(
                f"{len(self.logs)} bets are not one for each of {len(SHARES)} shares, or have won too much"
            )

    @classmethod
    def alarm(cls) -> "Bets":
        """Bets for ``add_restarting``, which need no reserve."""
        return cls((0.0,) * len(SHARES), 0.0)

    def add(self, value: float, against: Hypothesis) -> "Bets":
        """The capital after one more value. Raises ValueError where the value is outside of what was agreed."""
        gain = _gain(value, against)
        fresh = self.reserve / (self.samples + PATIENCE)
        logs = tuple(
            min(MOST_LOG, math.log(math.exp(log) + fresh) + math.log1p(share * gain))
            for share, log in zip(SHARES, self.logs, strict=True)
        )
        return Bets(logs, self.reserve - fresh, self.samples + 1)

    def add_restarting(self, value: float, against: Hypothesis) -> "Bets":
        """As ``add``, for the alarm of a change: a bet that has lost begins again with a capital of 1."""
        return replace(self, logs=tuple(max(0.0, log) for log in self.logs)).add(value, against)

    @property
    def log_evidence(self) -> float:
        """The natural logarithm of the mean capital: 0 at the start, ``log(1 / alpha)`` refutes at level alpha."""
        return math.log(sum(map(math.exp, self.logs)) / len(self.logs) + self.reserve)

    def refutes(self, alpha: float) -> bool:
        """Whether the hypothesis is refuted, with a probability of error of at most ``alpha``."""
        return self.log_evidence >= -math.log(alpha)


def _gain(value: float, against: Hypothesis) -> float:
    """What a value brings per bet, in units of the largest loss that is possible; from -1 up."""
    if not against.low <= value <= against.high:
        raise ValueError(f"{value} is not between {against.low} and {against.high}")
    return (value - against.limit) / (against.limit - against.low)
