"""Intervals for scores of a video, whose neighbouring frames are not independent: resampling of whole segments.

The block bootstrap (Künsch, "The Jackknife and the Bootstrap for General Stationary Observations", Annals of Statistics
1989), with blocks that do not overlap; percentile intervals (Efron and Tibshirani, "An Introduction to the Bootstrap",
1993, section 13.3).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SEGMENT_S = 5.0
RESAMPLES = 2000
LEVEL = 0.95
LEAST_SEGMENTS = 4
"""With fewer there is nothing to resample, and the interval is unknown."""

Counts = NDArray[np.float64]
"""Right, wrong and missed (3,), or (n, 3) by segment."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its interval; NaN where the interval is unknown."""

    value: float
    low: float
    high: float

    @property
    def sure_sign(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def f1(counts: Counts) -> Counts:
    """F1 of right, wrong and missed along the last axis; 1 where there was nothing to find and nothing was found."""
    right, wrong, missed = counts[..., 0], counts[..., 1], counts[..., 2]
    whole = 2 * right + wrong + missed
    return np.asarray(np.where(whole > 0, 2 * right / np.maximum(whole, 1e-9), 1.0))


def f1_interval(segments: Mapping[int, Counts], seed: int = 0) -> Interval:
    """Pooled F1 of segments by number, with its interval."""
    rows = _rows(segments, sorted(segments))
    value = float(f1(rows.sum(axis=0)))
    return _interval(value, f1(_resampled(rows, seed)))


def paired_interval(segments: Mapping[int, Counts], other: Mapping[int, Counts], seed: int = 0) -> Interval:
    """F1 of the first less that of the other, on the segments that both have: each resample takes the same of both."""
    common = sorted(segments.keys() & other.keys())
    first, second = _rows(segments, common), _rows(other, common)
    value = float(f1(first.sum(axis=0)) - f1(second.sum(axis=0)))
    return _interval(value, f1(_resampled(first, seed)) - f1(_resampled(second, seed)))


def _rows(segments: Mapping[int, Counts], numbers: list[int]) -> Counts:
    return np.array([segments[number] for number in numbers], np.float64).reshape(-1, 3)


def _resampled(rows: Counts, seed: int) -> Counts:
    """Sums (r, 3) over as many segments as there are, drawn with replacement; none where there are too few."""
    if len(rows) < LEAST_SEGMENTS:
        return np.empty((0, 3))
    drawn = np.random.default_rng(seed).integers(len(rows), size=(RESAMPLES, len(rows)))
    return np.asarray(rows[drawn].sum(axis=1))


def _interval(value: float, resampled: Counts) -> Interval:
    if not len(resampled):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))
