"""The estimate of a duration follows RFC 6298."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.latency import DurationEstimate, FreshEstimate


def estimate(samples_ms: list[float]) -> DurationEstimate:
    out = DurationEstimate()
    for sample_ms in samples_ms:
        out = out.add(sample_ms)
    return out


def test_nothing_is_known_before_the_first_sample() -> None:
    assert DurationEstimate().tail_ms() is None


def test_the_first_sample_is_the_mean_and_a_quarter_of_it_the_deviation() -> None:
    assert estimate([80.0]) == DurationEstimate(80.0, 20.0, 1)
    assert estimate([80.0]).tail_ms(4.0) == 160.0


def test_the_second_sample_moves_the_mean_by_an_eighth_and_the_deviation_by_a_quarter() -> None:
    # RFC 6298: deviation = 3/4 * 20 + 1/4 * |80 - 120|, mean = 7/8 * 80 + 1/8 * 120
    assert estimate([80.0, 120.0]) == DurationEstimate(85.0, 25.0, 2)


def test_a_steady_duration_is_learned_without_a_tail() -> None:
    steady = estimate([50.0] * 100)
    assert steady.mean_ms == pytest.approx(50.0)
    assert steady.tail_ms() == pytest.approx(50.0, abs=0.01)


def test_a_path_that_becomes_slow_is_noticed_within_a_few_samples() -> None:
    tail_ms = estimate([50.0] * 50 + [200.0] * 3).tail_ms()
    assert tail_ms is not None
    assert tail_ms > 200.0


@given(st.lists(st.floats(0.0, 1e5), min_size=1, max_size=100))
def test_the_mean_stays_within_what_was_seen_and_the_tail_is_no_less(samples_ms: list[float]) -> None:
    out = estimate(samples_ms)
    slack_ms = 1e-6 * max(samples_ms)
    assert min(samples_ms) - slack_ms <= out.mean_ms <= max(samples_ms) + slack_ms
    assert out.deviation_ms >= 0
    tail_ms = out.tail_ms()
    assert tail_ms is not None
    assert tail_ms >= out.mean_ms


def test_an_old_estimate_is_no_estimate_and_the_next_sample_starts_anew() -> None:
    slow = FreshEstimate(holds_s=1.0).add(900.0, 10.0)
    assert slow.tail_ms(10.9, 3.0) == pytest.approx(900 + 3 * 225)
    assert slow.tail_ms(11.0, 3.0) is None
    assert slow.mean_ms(11.0) is None
    renewed = slow.add(50.0, 11.5)
    assert renewed.mean_ms(12.0) == pytest.approx(50.0)
    assert slow.add(50.0, 10.5).mean_ms(10.6) == pytest.approx(900 - 850 / 8)
