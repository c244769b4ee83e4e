"""The fit of a link tells its fixed delay from its bandwidth, and notices a step."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.link_fit import LEAST_MS_PER_KB, LinkFit

sizes = st.floats(0.0, 1e6)
messages = st.lists(st.tuples(sizes, st.floats(0.0, 1e5), st.floats(0.0, 100.0)), max_size=60)
alike = st.lists(
    st.tuples(st.floats(3000.0, 5000.0), st.floats(5.0, 100.0), st.floats(0.0, 0.05)), min_size=20, max_size=100
)
"""Messages of much the same size, one soon after another."""


def link(base_ms: float, mbit_s: float, size_bytes: float) -> float:
    return base_ms + size_bytes * 8 / mbit_s / 1000


def fitted(moves: list[tuple[float, float, float]]) -> LinkFit:
    fit, now_s = LinkFit(), 0.0
    for size_bytes, delay_ms, gap_s in moves:
        now_s += gap_s
        fit = fit.add(size_bytes, delay_ms, now_s)
    return fit


@given(st.floats(0.0, 300.0), st.floats(0.3, 100.0))
def test_it_converges_to_a_link_without_noise(base_ms: float, mbit_s: float) -> None:
    fit = LinkFit()
    for number in range(60):
        size_bytes = (100.0, 4000.0, 9000.0, 15_000.0)[number % 4]
        fit = fit.add(size_bytes, link(base_ms, mbit_s, size_bytes), number / 5)
    for size_bytes in (100.0, 8000.0, 20_000.0):
        assert fit.delay_ms(size_bytes) == pytest.approx(link(base_ms, mbit_s, size_bytes), abs=5.0, rel=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_bandwidth_and_fixed_delay_are_told_apart_in_jitter(seed: int) -> None:
    rng, fit = Random(seed), LinkFit()
    for number in range(100):
        size_bytes = rng.uniform(2000, 16_000)
        fit = fit.add(size_bytes, link(80, 2, size_bytes) + rng.gauss(0, 10), number / 5)
    assert 1e6 / fit.ms_per_kb == pytest.approx(250_000, rel=0.5)
    assert fit.delay_ms(8000) == pytest.approx(link(80, 2, 8000), rel=0.15)


@pytest.mark.parametrize("seed", range(50))
def test_a_step_from_10_to_1_mbit_s_is_seen_within_two_seconds_of_five_messages_each(seed: int) -> None:
    """As over lte: 50 ms round trip, jitter of 15 ms, and one message in sixteen is sent again."""
    rng, fit = Random(seed), LinkFit()

    def send(number: int, mbit_s: float) -> LinkFit:
        size_bytes = rng.uniform(3000, 16_000)
        delay_ms = link(50, mbit_s, size_bytes) + max(0.0, rng.gauss(0, 15)) + (70 if rng.random() < 1 / 16 else 0)
        return fit.add(size_bytes, delay_ms, number / 5)

    for number in range(100):
        fit = send(number, 10)
    assert fit.delay_ms(8000) < 90
    for number in range(100, 110):
        fit = send(number, 1)
    assert fit.delay_ms(8000) > 0.8 * link(50, 1, 8000)


def test_one_message_that_was_sent_again_does_not_pass_for_a_slow_link() -> None:
    fit = LinkFit()
    for number in range(50):
        fit = fit.add(8000, link(50, 10, 8000) + 5 * (-1) ** number, number / 5)
    assert fit.add(8000, 400.0, 10.0).delay_ms(8000) < fit.delay_ms(8000) + 20


def test_what_was_known_counts_less_the_longer_nothing_was_sent() -> None:
    fit = LinkFit()
    for number in range(50):
        fit = fit.add(8000, 60.0 + 5 * (-1) ** number, number / 5)
    soon, later = fit.add(8000, 75.0, 10.0), fit.add(8000, 75.0, 20.0)
    assert fit.delay_ms(8000) < soon.delay_ms(8000) < later.delay_ms(8000) <= 75.0


@pytest.mark.parametrize("seed", range(10))
def test_a_busy_way_with_spells_of_queueing_stays_known(seed: int) -> None:
    """As an agent of 25 cameras sees it, spells of a full queue opening the filter again and again."""
    rng, fit, now_s = Random(seed), LinkFit(), 0.0
    for number in range(3000):
        now_s += rng.expovariate(120)
        queue_ms = 40.0 if number % 300 > 280 else 0.0
        size_bytes = rng.uniform(3500, 5000) if number % 50 else 25_000
        fit = fit.add(size_bytes, link(8, 30, size_bytes) + queue_ms + abs(rng.gauss(0, 3)), now_s)
        assert 0 <= fit.delay_ms(4000) < 200


@given(st.one_of(messages, alike))
def test_what_is_not_known_of_delay_and_bandwidth_stays_a_covariance_matrix(
    moves: list[tuple[float, float, float]],
) -> None:
    line = fitted(moves).line
    assert line.cov**2 <= line.base_var * line.slope_var * (1 + 1e-9)


@given(messages, sizes, sizes)
def test_a_larger_message_never_takes_less_and_none_takes_less_than_nothing(
    moves: list[tuple[float, float, float]], one_bytes: float, other_bytes: float
) -> None:
    fit = fitted(moves)
    small, large = sorted((one_bytes, other_bytes))
    assert 0 <= fit.delay_ms(small) <= fit.delay_ms(large)
    assert fit.ms_per_kb >= LEAST_MS_PER_KB
    assert fit.line.base_var > 0
    assert fit.line.slope_var > 0
