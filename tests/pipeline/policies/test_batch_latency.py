"""Measured run times predict the next ones, forget, and stay bounded."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.geometry import Size
from pipeline.policies.batch_latency import LEAST_GAIN, LEAST_RUNS, RECENT_S, TRIED_AGAIN_S, ArrivalGaps, BatchLatency

SMALL, LARGE = Size(320, 320), Size(640, 320)


def test_nothing_is_predicted_for_a_model_that_never_ran() -> None:
    table = BatchLatency()
    table.observe("other", SMALL, 1, 0.02, now_s=0.0)
    times = table.times("m", SMALL, now_s=0.0)
    assert (times.typical_s(1), times.p95_s(1), times.gain(2)) == (None, None, None)


def test_the_typical_time_is_the_median_and_the_tail_the_95th_percentile() -> None:
    table = BatchLatency()
    for i in range(1, 21):
        table.observe("m", SMALL, 1, i / 1000, now_s=i / 10)
    times = table.times("m", SMALL, now_s=2.0)
    assert times.typical_s(1) == 0.010
    assert times.p90_s(1) == 0.018
    assert times.p95_s(1) == 0.019


def test_one_slow_run_of_two_does_not_make_the_promise_impossible() -> None:
    table = BatchLatency()
    table.observe("m", SMALL, 1, 5.0, now_s=0.0)
    table.observe("m", SMALL, 1, 0.02, now_s=1.0)
    assert table.times("m", SMALL, now_s=1.0).p90_s(1) == 0.02


def test_an_unseen_batch_size_is_taken_to_grow_in_proportion() -> None:
    table = BatchLatency()
    table.observe("m", SMALL, 2, 0.030, now_s=0.0)
    times = table.times("m", SMALL, now_s=0.0)
    assert times.p95_s(4) == 0.060
    assert times.p95_s(1) == 0.030, "a smaller batch is taken to cost no more than the measured one"


def test_an_unseen_size_is_predicted_from_its_pixels() -> None:
    table = BatchLatency()
    table.observe("m", SMALL, 1, 0.020, now_s=0.0)
    assert table.times("m", LARGE, now_s=0.0).typical_s(1) == 0.040


def test_old_times_no_longer_predict_so_one_bad_run_cannot_refuse_for_ever() -> None:
    table = BatchLatency()
    table.observe("m", SMALL, 1, 5.0, now_s=0.0)
    later_s = RECENT_S + 0.001
    assert table.times("m", SMALL, now_s=later_s).typical_s(1) is None
    table.observe("m", SMALL, 1, 0.02, now_s=later_s)
    assert table.times("m", SMALL, now_s=later_s).p95_s(1) == 0.02


def test_what_batching_gains_is_measured_and_carries_over_to_other_sizes() -> None:
    table = BatchLatency()
    table.observe("m", SMALL, 1, 0.020, now_s=0.0)
    assert table.times("m", SMALL, now_s=0.0).gain(2) is None
    table.observe("m", SMALL, 2, 0.030, now_s=1.0)
    for bucket in (SMALL, LARGE):
        gain = table.times("m", bucket, now_s=30.0).gain(2)
        assert gain is not None
        assert math.isclose(gain, 0.25)


def test_that_batches_gain_nothing_is_not_believed_of_one_bad_moment_nor_for_long() -> None:
    table = BatchLatency()
    for turn in range(LEAST_RUNS):
        assert table.times("m", SMALL, now_s=1.0).gain(2) is None, "so it is tried"
        table.observe("m", SMALL, 1, 0.020, now_s=1.0)
        table.observe("m", SMALL, 2, 0.040 + 0.001 * turn, now_s=1.0)
    for now_s, believed in ((1.0, True), (1.0 + TRIED_AGAIN_S, True), (1.1 + TRIED_AGAIN_S, False)):
        gain = table.times("m", SMALL, now_s=now_s).gain(2)
        assert (gain is not None) == believed
        assert gain is None or gain < LEAST_GAIN


def test_a_slow_run_of_a_batch_is_outweighed_by_those_that_follow() -> None:
    table = BatchLatency()
    table.observe("m", SMALL, 1, 0.020, now_s=0.0)
    table.observe("m", SMALL, 2, 0.200, now_s=0.0)
    assert table.times("m", SMALL, now_s=0.0).gain(2) is None, "it is tried again"
    for _ in range(2):
        table.observe("m", SMALL, 2, 0.030, now_s=0.0)
    assert table.times("m", SMALL, now_s=0.0).gain(2) == pytest.approx(0.25)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9), st.floats(1e-6, 10)), max_size=300),
    st.integers(1, 12),
)
def test_the_table_stays_bounded_and_its_predictions_finite(runs: list[tuple[int, int, float]], batch: int) -> None:
    table = BatchLatency(samples=4, keys=16)
    for i, (side, size, run_s) in enumerate(runs):
        table.observe("m", Size(32 * side, 32), size, run_s, now_s=i / 100)
    assert len(table) <= 16
    times = table.times("m", SMALL, now_s=3.0)
    typical_s, p90_s, p95_s = times.typical_s(batch), times.p90_s(batch), times.p95_s(batch)
    assert (typical_s is None) == (not runs)
    if typical_s is not None and p90_s is not None and p95_s is not None:
        assert 0 < typical_s <= p90_s <= p95_s < math.inf


def test_the_next_arrival_is_expected_after_the_usual_gap_and_its_spread() -> None:
    gaps = ArrivalGaps()
    gaps.observe("m", SMALL, 1.0)
    assert gaps.next_s("m", SMALL) is None
    for i in range(1, 100):
        gaps.observe("m", SMALL, 1.0 + 0.1 * i)
    expected_s = gaps.next_s("m", SMALL)
    assert expected_s is not None
    assert 0.0999 < expected_s - 10.9 < 0.105
    assert gaps.next_s("m", LARGE) is None


def test_arrival_gaps_are_kept_for_a_bounded_number_of_kinds() -> None:
    gaps = ArrivalGaps(kinds=2)
    for side in (1, 2, 3):
        gaps.observe("m", Size(side, side), 0.0)
        gaps.observe("m", Size(side, side), 1.0)
    assert gaps.next_s("m", Size(1, 1)) is None
    assert gaps.next_s("m", Size(3, 3)) is not None
