"""How many of those who wait are in time, when a batch of some size goes first: looked ahead, without new arrivals."""

from bisect import bisect_left
from collections.abc import Callable, Sequence


def in_time(deadlines_s: Sequence[float], size: int, now_s: float, most: int, run_s: Callable[[int], float]) -> int:
    """The number of deadlines met when ``size`` go first, and then always the largest batch that its members can bear.

    ``deadlines_s`` rise; ``run_s(n)`` is what a batch of ``n`` takes, of at most ``most``. Each batch leaves out who
    would be late with it, for whom it is too late afterwards.
    """
    met, begin, ends_s = 0, 0, now_s
    while size:
        ends_s += run_s(size)
        begin = bisect_left(deadlines_s, ends_s, begin)
        met += min(size, len(deadlines_s) - begin)
        begin = min(begin + size, len(deadlines_s))
        size = largest(deadlines_s[begin:], ends_s, most, run_s)
    return met


def largest(deadlines_s: Sequence[float], now_s: float, most: int, run_s: Callable[[int], float]) -> int:
    """The largest batch, of any of those who wait, that is in time for all of it; 0 where there is none."""
    for size in range(min(most, len(deadlines_s)), 0, -1):
        if deadlines_s[-size] >= now_s + run_s(size):
            return size
    return 0
