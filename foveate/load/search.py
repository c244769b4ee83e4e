"""Finds the highest rate with few enough misses, from repeated runs."""

import math
from dataclasses import dataclass, field

Z95 = 1.96


def wilson(missed: int, offered: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share (E. B. Wilson, JASA 22, 1927); (0, 1) of nothing.

    It takes requests for independent. Misses come together, so the truth varies more.
    """
    if offered == 0:
        return 0.0, 1.0
    share, square = missed / offered, Z95 * Z95
    centre = (share + square / (2 * offered)) / (1 + square / offered)
    spread = Z95 / (1 + square / offered) * math.sqrt(share * (1 - share) / offered + square / (4 * offered * offered))
    return max(0.0, centre - spread), min(1.0, centre + spread)


@dataclass(frozen=True, slots=True)
class Tried:
    """The runs at one rate, together."""

    rate_per_s: float
    runs: int = 0
    offered: int = 0
    missed: int = 0

    @property
    def miss_share(self) -> float:
        return self.missed / self.offered if self.offered else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the share of misses."""
        return wilson(self.missed, self.offered)


@dataclass(frozen=True, slots=True)
class Found:
    """``best`` is the highest rate that passed, None where none did; ``above`` the lowest that did not, None where the
    limit was reached. The truth is between them, as far as the runs tell.
    """

    best: Tried | None
    above: Tried | None


@dataclass(slots=True)
class RateSearch:
    """Ask ``next_rate``, run, ``tell``; until it is None. Pure: it runs nothing itself.

    From ``first_per_s`` by ``stride`` up while rates pass, or down while they fail, then halving the ratio of the
    lowest that failed and the highest that passed until it is below ``resolution``. A rate passes when at most
    ``most_missed`` of its requests miss, over ``runs`` runs, or as soon as the 95 % interval leaves no doubt; one at
    which chance brought no request does not. No rate is tried above ``most_per_s`` or below ``least_per_s``.
    """

    first_per_s: float
    most_missed: float = 0.01
    stride: float = 1.5
    resolution: float = 1.05
    runs: int = 3
    least_per_s: float = 0.1
    most_per_s: float = 10_000.0
    tried: list[Tried] = field(default_factory=list)
    _current: Tried | None = None
    _passed: Tried | None = None
    _failed: Tried | None = None

    def __post_init__(self) -> None:
        if not self.least_per_s <= self.first_per_s <= self.most_per_s or self.resolution <= 1 or self.stride <= 1:
            raise ValueError("the first rate lies between the limits, and resolution and stride above 1")
        self._current = Tried(self.first_per_s)

    @property
    def next_rate(self) -> float | None:
        """The rate to run next, in requests per second; None when the search is over."""
        return None if self._current is None else self._current.rate_per_s

    def tell(self, offered: int, missed: int) -> None:
        """What a run at ``next_rate`` brought. Raises ValueError when the search is over."""
        now = self._current
        if now is None:
            raise ValueError("the search is over: no run was asked for")
        now = Tried(now.rate_per_s, now.runs + 1, now.offered + offered, now.missed + missed)
        low, high = now.interval
        if now.runs < self.runs and low <= self.most_missed <= high:
            self._current = now
            return
        self.tried.append(now)
        if now.offered and now.miss_share <= self.most_missed:
            self._passed = now
        else:
            self._failed = now
        following = self._following()
        self._current = None if following is None else Tried(following)

    @property
    def found(self) -> Found:
        """What is known until now."""
        return Found(self._passed, self._failed)

    def _following(self) -> float | None:
        passed, failed = self._passed, self._failed
        if passed is not None and failed is not None:
            if failed.rate_per_s / passed.rate_per_s <= self.resolution:
                return None
            return math.sqrt(passed.rate_per_s * failed.rate_per_s)
        if passed is not None:
            return self._within(passed, passed.rate_per_s * self.stride)
        return None if failed is None else self._within(failed, failed.rate_per_s / self.stride)

    def _within(self, last: Tried, wanted_per_s: float) -> float | None:
        bounded = min(max(wanted_per_s, self.least_per_s), self.most_per_s)
        return None if bounded == last.rate_per_s else bounded
