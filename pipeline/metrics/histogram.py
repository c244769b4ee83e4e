"""A histogram of durations over a whole run, in bounded memory."""

import math
from collections import Counter

_STEPS_PER_OCTAVE = 64
"""Neighbouring buckets differ by 2 ** (1 / 64), so a percentile is at most 1.1 % too high."""


class LogHistogram:
    """Counts values above 0 in buckets of equal ratio; mergeable.

    A percentile is the upper end of the bucket that holds it, never above the exact maximum.
    """

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self._count = 0
        self._greatest = 0.0

    def add(self, value: float) -> None:
        """Count one value; what is not above 0 counts in the lowest bucket. Raises ValueError on a value not finite."""
        if not math.isfinite(value):
            raise ValueError(f"a histogram holds finite values, not {value}")
        bucket = math.ceil(_STEPS_PER_OCTAVE * math.log2(max(value, 1e-3)))
        self._buckets[bucket] += 1
        self._count += 1
        self._greatest = max(self._greatest, value)

    def merge(self, other: "LogHistogram") -> None:
        """Take in the counts of another one."""
        self._buckets.update(other._buckets)  # noqa: SLF001 - another instance of the same class
        self._count += other._count  # noqa: SLF001
        self._greatest = max(self._greatest, other._greatest)  # noqa: SLF001

    @property
    def count(self) -> int:
        return self._count

    @property
    def greatest(self) -> float | None:
        """The exact maximum; None without values."""
        return self._greatest if self._count else None

    def percentile(self, percent: float) -> float | None:
        """The value that ``percent`` per cent (0 to 100] do not exceed; None without values."""
        rank, seen = math.ceil(percent * self._count / 100), 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                return min(2 ** (bucket / _STEPS_PER_OCTAVE), self._greatest)
        return None
