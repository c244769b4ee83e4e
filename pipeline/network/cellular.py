"""Generated cellular links: like recorded ones in what they carry per second, how long that lasts, and their gaps."""

import zlib
from dataclasses import dataclass

import numpy as np

from pipeline.network.mahimahi import OPPORTUNITY_BYTES, DeliveryTrace

_LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_PACKETS_PER_MBIT = 1e6 / 8 / OPPORTUNITY_BYTES


@dataclass(frozen=True, slots=True)
class CellStatistics:
    """What a recording is like.

    ``mbit_s``: least, P5, P25, median, P75, P95 and most of the rate over 1 s, gaps aside. ``persistence``: correlation
    of one second with the next. ``gaps``: how many times nothing passed for a second or longer, ``gap_most_s`` at most.
    """

    duration_s: int
    mbit_s: tuple[float, ...]
    persistence: float
    gaps: int
    gap_most_s: float


VERIZON_LTE_UP = CellStatistics(140, (0.1, 1.15, 3.65, 5.65, 8.3, 11.5, 13.0), 0.77, 1, 1.7)
VERIZON_LTE_DOWN = CellStatistics(140, (0.3, 1.05, 2.6, 4.3, 6.7, 10.8, 16.8), 0.84, 1, 1.4)
TMOBILE_UMTS_UP = CellStatistics(931, (0.04, 0.06, 0.61, 1.07, 1.34, 1.43, 1.48), 0.85, 23, 5.8)
TMOBILE_UMTS_DOWN = CellStatistics(928, (0.04, 0.05, 0.74, 1.89, 2.83, 5.35, 7.1), 0.9, 32, 5.8)
"""Measured on the recordings of Winstein et al., "Stochastic Forecasts Achieve High Throughput and Low Delay over
Cellular Networks", NSDI 2013, as distributed with Mahimahi. The recordings themselves are not part of this project."""


def generate(like: CellStatistics, seed: int, name: str) -> DeliveryTrace:
    """A trace of the same statistics; ``name`` tells apart those of one seed.

    The rates of the seconds are the quantiles themselves, one each, put in the order of a first-order autoregressive
    process; seconds in a gap have the lowest. So every seed has the same distribution, in another order.
    """
    random = np.random.default_rng([seed & 0xFFFF_FFFF, zlib.crc32(name.encode())])
    gaps = _gaps(like, random)
    free = _free(like.duration_s, gaps)
    mood = _persistent(like, random)
    covered = 1.0 - (free[:, 1] - free[:, 0])
    order = np.argsort(np.where(covered >= 1, mood - 200, np.where(covered > 0, mood - 100, mood)))
    rates = np.empty(like.duration_s)
    rates[order] = np.interp((np.arange(like.duration_s) + 0.5) / like.duration_s, _LEVELS, like.mbit_s)
    moments: list[int] = []
    for second, (start, end) in enumerate(free):
        if end > start:
            count = max(1, round(rates[second] * _PACKETS_PER_MBIT))
            within = start + (end - start) * (np.arange(count) + random.random(count)) / count
            moments += [1000 * second + int(1000 * moment) for moment in within]
    return DeliveryTrace([*moments, 1000 * like.duration_s])


def _persistent(like: CellStatistics, random: np.random.Generator) -> np.ndarray:
    mood = random.standard_normal(like.duration_s)
    fresh = (1 - like.persistence**2) ** 0.5
    for second in range(1, like.duration_s):
        mood[second] = like.persistence * mood[second - 1] + fresh * mood[second]
    return mood


def _gaps(like: CellStatistics, random: np.random.Generator) -> list[tuple[float, float]]:
    """One gap in each equal part of the time, at least 2 s from the next; the longest is as long as it is said."""
    lengths_s = 1 + (like.gap_most_s - 1) * random.random(like.gaps) ** 3
    lengths_s[random.integers(like.gaps)] = like.gap_most_s
    part_s = like.duration_s / like.gaps
    starts_s = [number * part_s + 2 + random.random() * (part_s - like.gap_most_s - 4) for number in range(like.gaps)]
    return [(start, start + float(length)) for start, length in zip(starts_s, lengths_s, strict=True)]


def _free(duration_s: int, gaps: list[tuple[float, float]]) -> np.ndarray:
    """The part of each second in which something passes, from and until in 0 to 1."""
    free = np.tile(np.array([0.0, 1.0]), (duration_s, 1))
    for start, end in gaps:
        first, last = int(start), int(end)
        free[first, 1] = start - first
        free[last, 0] = end - last
        free[first + 1 : last] = 0.0
    return free
