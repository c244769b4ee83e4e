"""The uplink budget is never overspent by more than one burst."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.tokens import TokenBucket

steps = st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 50_000.0)), max_size=60)


def test_a_budget_in_kbit_s_is_kept_in_bytes() -> None:
    bucket = TokenBucket.full(600, 2.0, 0.0)
    assert (bucket.rate_bytes_s, bucket.burst_bytes, bucket.level_bytes) == (75_000, 150_000, 150_000)


def test_it_fills_with_time_up_to_the_burst() -> None:
    bucket = TokenBucket.full(8, 2.0, 0.0).take(2000)
    assert bucket.at(0.5).level_bytes == 500
    assert bucket.at(100.0).level_bytes == 2000


def test_time_that_falls_adds_and_takes_nothing() -> None:
    bucket = TokenBucket.full(8, 2.0, 10.0).take(1500)
    back = bucket.at(5.0)
    assert back.level_bytes == 500
    assert back.at(10.0).level_bytes == 500


def test_an_estimate_that_was_too_low_is_paid_back_before_the_next_one() -> None:
    bucket = TokenBucket.full(8, 1.0, 0.0).take(3000)
    assert bucket.level_bytes == -2000
    assert bucket.at(2.0).available_bytes() == 0
    assert bucket.at(2.5).available_bytes() == 500


def test_what_exceeds_the_whole_burst_may_go_when_the_bucket_is_full() -> None:
    bucket = TokenBucket.full(8, 1.0, 0.0)
    assert bucket.available_bytes() is None
    assert bucket.take(1).available_bytes() == 999
    assert bucket.take(5000).at(5.0).available_bytes() is None


def test_no_budget_is_no_limit() -> None:
    bucket = TokenBucket.full(None, 2.0, 0.0)
    assert bucket.take(1e12).at(1.0).available_bytes() is None


@given(st.floats(1.0, 10_000.0), st.floats(0.1, 10.0), steps)
def test_the_level_never_exceeds_the_burst(rate_kbps: float, burst_s: float, moves: list[tuple[float, float]]) -> None:
    bucket, now_s = TokenBucket.full(rate_kbps, burst_s, 0.0), 0.0
    for gap_s, size_bytes in moves:
        now_s += gap_s
        bucket = bucket.at(now_s)
        assert bucket.level_bytes <= bucket.burst_bytes
        bucket = bucket.take(size_bytes)
        assert bucket.level_bytes <= bucket.burst_bytes


@given(st.floats(1.0, 1000.0), st.floats(0.1, 10.0), steps)
def test_who_asks_first_never_sends_more_than_rate_times_time_and_one_burst(
    rate_kbps: float, burst_s: float, moves: list[tuple[float, float]]
) -> None:
    bucket, now_s, sent_bytes = TokenBucket.full(rate_kbps, burst_s, 0.0), 0.0, 0.0
    for gap_s, size_bytes in moves:
        now_s += gap_s
        bucket = bucket.at(now_s)
        available_bytes = bucket.available_bytes()
        if size_bytes <= (bucket.burst_bytes if available_bytes is None else available_bytes):
            bucket = bucket.take(size_bytes)
            sent_bytes += size_bytes
        assert sent_bytes <= bucket.burst_bytes + rate_kbps * 125 * now_s + 1e-3
