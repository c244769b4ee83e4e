import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.metrics.histogram import LogHistogram
from pipeline.metrics.windows import HistogramWindow, Rate, SlidingWindow

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)
STEPS = st.lists(st.tuples(st.floats(0, 5), st.floats(0, 100)), max_size=80)


def filled(values: list[float], span_s: float = 60.0, capacity: int = 1000) -> SlidingWindow:
    window = SlidingWindow(span_s, capacity)
    for value in values:
        window.add(value, 0.0)
    return window


def test_percentiles_are_nearest_rank() -> None:
    window = filled([15.0, 20.0, 35.0, 40.0, 50.0])
    assert window.percentiles(0.0, [5, 30, 40, 50, 99, 100]) == [15.0, 20.0, 20.0, 35.0, 50.0, 50.0]


def test_p99_of_a_hundred_values_is_the_ninety_ninth() -> None:
    assert filled([float(n) for n in range(1, 101)]).percentiles(0.0, [50, 99]) == [50.0, 99.0]


def test_an_empty_window_has_no_percentiles_and_no_rate() -> None:
    window = SlidingWindow(10, 5)
    assert window.percentiles(3.0, [50, 99]) == [None, None]
    assert (window.count(3.0), window.rate(3.0)) == (0, 0.0)


@given(VALUES, st.floats(0.5, 100))
def test_a_percentile_is_a_held_value_that_enough_values_do_not_exceed(values: list[float], percent: float) -> None:
    (found,) = filled(values).percentiles(0.0, [percent])
    assert found in values
    assert sum(v <= found for v in values) >= percent / 100 * len(values) - 1e-9
    assert sum(v < found for v in values) < percent / 100 * len(values) + 1e-9


@given(STEPS, st.integers(1, 20))
def test_a_window_holds_the_newest_values_of_its_span_and_no_more(
    steps: list[tuple[float, float]], capacity: int
) -> None:
    window, now_s, seen = SlidingWindow(10.0, capacity), 0.0, []
    for step_s, value in steps:
        now_s += step_s
        window.add(value, now_s)
        seen.append((now_s, value))
    expected = [value for at_s, value in seen if at_s >= now_s - 10.0][-capacity:]
    assert window.count(now_s) == len(expected)
    assert window.percentiles(now_s, [100]) == [max(expected, default=None)]


def test_values_leave_when_the_span_has_passed() -> None:
    window = filled([1.0, 2.0], span_s=10.0)
    window.add(3.0, 8.0)
    assert window.count(10.0) == 3
    assert window.percentiles(10.5, [50]) == [3.0]
    assert window.count(18.5) == 0


def test_a_rate_is_right_before_the_span_is_full_and_after() -> None:
    window = SlidingWindow(10.0, 1000)
    for n in range(1, 301):
        window.add(0.0, n / 10)
        if n in (30, 300):
            assert window.rate(n / 10) == pytest.approx(10.0, rel=0.05)


def test_a_rate_stays_right_when_the_capacity_cuts_the_span_short() -> None:
    window = SlidingWindow(60.0, 50)
    for n in range(1000):
        window.add(0.0, n / 10)
    assert window.rate(99.9) == pytest.approx(10.0, rel=0.05)


def test_one_first_event_is_not_a_huge_rate() -> None:
    window, rate = SlidingWindow(60.0, 10), Rate(10.0)
    window.add(1.0, 100.0)
    rate.add(100.0, 500)
    assert window.rate(100.0) == 1.0
    assert (rate.events_per_s(100.0), rate.bytes_per_s(100.0)) == (1.0, 500.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        SlidingWindow(1, 1).add(value, 0.0)


@pytest.mark.parametrize("percent", [0, -1, 100.1, math.nan])
def test_a_percentile_outside_its_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="percentiles"):
        filled([1.0]).percentiles(0.0, [50, percent])


@pytest.mark.parametrize(("span_s", "capacity"), [(0, 5), (-1, 5), (1, 0), (math.nan, 5)])
def test_a_window_without_room_is_refused(span_s: float, capacity: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        SlidingWindow(span_s, capacity)


def test_a_rate_without_span_or_slots_is_refused() -> None:
    for span_s, slots in ((0.0, 20), (10.0, 1)):
        with pytest.raises(ValueError, match="slots"):
            Rate(span_s, slots)


def test_bytes_and_events_per_second_follow_a_steady_flow() -> None:
    rate = Rate(10.0)
    for n in range(1, 601):
        rate.add(n / 10, 1250)
        if n in (30, 600):
            assert rate.events_per_s(n / 10) == pytest.approx(10.0, rel=0.06)
            assert rate.bytes_per_s(n / 10) == pytest.approx(12_500.0, rel=0.06)


def test_a_rate_falls_to_zero_when_nothing_comes() -> None:
    rate = Rate(10.0)
    rate.add(5.0, 100, events=40)
    falling = [rate.events_per_s(float(now_s)) for now_s in range(5, 17)]
    assert all(later <= earlier for earlier, later in pairwise(falling))
    assert falling[-1] == 0.0


@given(st.lists(st.tuples(st.floats(-2, 5), st.integers(0, 10_000)), max_size=100))
def test_a_rate_never_counts_an_event_twice_and_is_never_negative(steps: list[tuple[float, int]]) -> None:
    rate, now_s = Rate(10.0, slots=4), 100.0
    for step_s, amount_bytes in steps:
        now_s += step_s
        rate.add(now_s, amount_bytes)
    assert 0.0 <= rate.events_per_s(now_s) <= len(steps)
    assert 0.0 <= rate.bytes_per_s(now_s) <= sum(amount for _, amount in steps)


TIMED = st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.1, 5000.0)), max_size=120)


def windowed(
    steps: list[tuple[float, float]], span_s: float = 10.0
) -> tuple[HistogramWindow, list[tuple[float, float]]]:
    """A window that took in values at rising times, and those times and values."""
    window, now_s, seen = HistogramWindow(span_s), 50.0, []
    for step_s, value in steps:
        now_s += step_s
        window.add(value, now_s)
        seen.append((now_s, value))
    return window, seen


def whole(values: list[float]) -> LogHistogram:
    histogram = LogHistogram()
    for value in values:
        histogram.add(value)
    return histogram


def figures(histogram: LogHistogram) -> list[float | None]:
    return [histogram.count, histogram.greatest, *(histogram.percentile(p) for p in (1, 50, 90, 99, 100))]


@given(TIMED)
def test_a_histogram_window_holds_the_seconds_of_its_span_and_no_more(steps: list[tuple[float, float]]) -> None:
    window, seen = windowed(steps)
    now_s = seen[-1][0] if seen else 50.0
    held = [value for at_s, value in seen if int(at_s) > int(now_s) - 10]
    assert figures(window.recent(now_s)) == figures(whole(held))


@given(TIMED, st.floats(0.0, 40.0))
def test_a_later_beginning_leaves_out_the_seconds_before_it(steps: list[tuple[float, float]], ago_s: float) -> None:
    window, seen = windowed(steps, span_s=60.0)
    now_s = seen[-1][0] if seen else 50.0
    held = [value for at_s, value in seen if int(at_s) > int(now_s) - 60 and int(at_s) >= now_s - ago_s]
    assert figures(window.recent(now_s, now_s - ago_s)) == figures(whole(held))


@given(st.lists(TIMED, min_size=1, max_size=4))
def test_merging_windows_gives_the_window_of_all_values(parts: list[list[tuple[float, float]]]) -> None:
    made = [windowed(part) for part in parts]
    now_s = max(seen[-1][0] if seen else 50.0 for _, seen in made)
    merged, together = LogHistogram(), HistogramWindow(10.0)
    for window, _ in made:
        merged.merge(window.recent(now_s))
    for at_s, value in sorted(one for _, seen in made for one in seen):
        together.add(value, at_s)
    assert figures(merged) == figures(together.recent(now_s))


def test_a_late_value_counts_in_the_newest_second() -> None:
    window = HistogramWindow(10.0)
    window.add(1.0, 20.5)
    window.add(2.0, 12.0)
    assert window.recent(20.5, 20.0).count == 2


@pytest.mark.parametrize(("span_s", "slot_s"), [(0.5, 1.0), (1.0, 0.0), (math.nan, 1.0)])
def test_a_histogram_window_without_room_is_refused(span_s: float, slot_s: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        HistogramWindow(span_s, slot_s)
