"""Percentiles of a whole run within 1.1 %, in bounded memory."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.metrics.histogram import LogHistogram

durations_ms = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=300)


def filled(values: list[float]) -> LogHistogram:
    histogram = LogHistogram()
    for value in values:
        histogram.add(value)
    return histogram


def nearest_rank(values: list[float], percent: float) -> float:
    return sorted(values)[max(1, math.ceil(percent * len(values) / 100)) - 1]


@given(durations_ms, st.sampled_from([1, 25, 50, 90, 95, 99, 99.9, 100]))
def test_a_percentile_is_never_too_low_and_at_most_1_1_percent_too_high(values: list[float], percent: float) -> None:
    exact, told = nearest_rank(values, percent), filled(values).percentile(percent)
    assert told is not None
    assert exact * (1 - 1e-9) <= told <= exact * 1.011


@given(durations_ms)
def test_the_greatest_value_is_exact_and_no_percentile_exceeds_it(values: list[float]) -> None:
    histogram = filled(values)
    assert histogram.greatest == max(values)
    assert histogram.percentile(100) == max(values)
    assert histogram.count == len(values)


@given(durations_ms, durations_ms)
def test_merging_equals_counting_together(a: list[float], b: list[float]) -> None:
    merged, together = filled(a), filled(a + b)
    merged.merge(filled(b))
    assert (merged.count, merged.greatest) == (together.count, together.greatest)
    assert [merged.percentile(p) for p in (1, 50, 99)] == [together.percentile(p) for p in (1, 50, 99)]


def test_without_values_nothing_is_claimed() -> None:
    assert LogHistogram().percentile(50) is None
    assert LogHistogram().greatest is None


@pytest.mark.parametrize("value", [0.0, -5.0])
def test_what_is_not_above_zero_counts_in_the_lowest_bucket(value: float) -> None:
    histogram = filled([value, 10.0])
    assert histogram.count == 2
    lowest = histogram.percentile(50)
    assert lowest is not None
    assert lowest <= 0.001 * 1.011
    assert histogram.greatest == 10.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        LogHistogram().add(value)


def test_memory_is_bounded_by_the_range_and_not_by_the_count() -> None:
    histogram = filled([1.0 + (n % 1000) for n in range(20_000)])
    assert len(histogram._buckets) <= 64 * 10 + 1
