"""Intervals cover what they are about, and differences are paired."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.bench.bootstrap import Counts, f1, f1_interval, paired_interval
from pipeline.metrics.matching import Score

counts = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)).map(lambda c: np.array(c, np.float64))
many = st.dictionaries(st.integers(0, 60), counts, min_size=4, max_size=20)


def noisy(seed: int, segments: int, right: float = 30.0) -> dict[int, Counts]:
    rng = np.random.default_rng(seed)
    return {n: np.array([rng.poisson(right), rng.poisson(6), rng.poisson(6)], np.float64) for n in range(segments)}


@given(counts)
def test_f1_is_that_of_the_score(values: Counts) -> None:
    assert float(f1(values)) == pytest.approx(Score(*(int(v) for v in values)).f1)


@given(many)
def test_an_interval_is_in_order_and_inside_0_and_1(segments: dict[int, Counts]) -> None:
    found = f1_interval(segments)
    assert 0 <= found.low <= found.high <= 1
    assert 0 <= found.value <= 1


@given(many)
def test_nothing_differs_from_itself(segments: dict[int, Counts]) -> None:
    found = paired_interval(segments, segments)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert not found.sure_sign


@given(many, many)
def test_a_difference_turned_round_has_the_other_sign(first: dict[int, Counts], second: dict[int, Counts]) -> None:
    common = {n: second.get(n, np.zeros(3)) for n in first}
    there, back = paired_interval(first, common), paired_interval(common, first)
    assert (there.value, there.low) == pytest.approx((-back.value, -back.high))


def test_only_segments_that_both_have_are_compared() -> None:
    first, second = noisy(1, 8), noisy(1, 8)
    second[99] = np.array([0.0, 500.0, 500.0])
    assert paired_interval(first, second).value == 0


def test_with_too_few_segments_the_interval_is_unknown() -> None:
    found = f1_interval(noisy(1, 3))
    assert math.isfinite(found.value)
    assert math.isnan(found.low)
    assert not found.sure_sign


def test_more_segments_make_it_narrower() -> None:
    few, more = f1_interval(noisy(1, 8)), f1_interval(noisy(1, 400))
    assert more.high - more.low < 0.5 * (few.high - few.low)


def test_nineteen_of_twenty_intervals_cover_the_truth() -> None:
    true = float(f1(np.array([30.0, 6.0, 6.0])))
    covered = sum((found := f1_interval(noisy(seed, 40))).low <= true <= found.high for seed in range(100))
    assert 85 <= covered <= 100


def test_a_paired_difference_is_sure_where_the_systems_alone_overlap() -> None:
    rng = np.random.default_rng(3)
    hard = {n: np.array([40 - load, load, load], np.float64) for n, load in enumerate(rng.integers(2, 30, 30))}
    better = {n: c + np.array([1.0, -1.0, 0.0]) for n, c in hard.items()}
    assert f1_interval(better).low < f1_interval(hard).high
    assert paired_interval(better, hard).low > 0
