"""When sessions connect again."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.transport.backoff import Backoff


def delays(backoff: Backoff, count: int, connected_for_s: float = 0.0) -> list[float]:
    now_s, out = 0.0, []
    for _ in range(count):
        delay_s = backoff.ended(now_s, connected_for_s)
        out.append(delay_s)
        now_s += delay_s + connected_for_s
    return out


def test_delays_double_from_the_first_to_the_cap() -> None:
    assert delays(Backoff(1, 30, spread=0, rng=random.Random(1)), 5) == [1, 2, 4, 8, 16]
    assert all(15 <= delay <= 30 for delay in delays(Backoff(1, 30, spread=0, rng=random.Random(1)), 20)[5:])


@given(st.integers(0), st.integers(1, 40))
def test_no_delay_is_under_the_first_or_over_the_cap(seed: int, count: int) -> None:
    assert all(1 <= delay <= 30 for delay in delays(Backoff(rng=random.Random(seed)), count))


def test_no_two_sequences_are_alike() -> None:
    sequences = {tuple(delays(Backoff(rng=random.Random(seed)), 5)) for seed in range(50)}
    assert len(sequences) == 50


def test_sessions_that_end_soon_count_as_failures() -> None:
    assert delays(Backoff(1, 30, spread=0), 4, connected_for_s=9.9) == [1, 2, 4, 8]


def test_a_session_that_lasted_makes_the_next_delay_short_again() -> None:
    backoff = Backoff(1, 30, spread=0)
    delays(backoff, 4)
    assert backoff.ended(1000.0, connected_for_s=10.0) == 1


def test_sessions_that_share_a_backoff_come_back_together_and_count_once() -> None:
    backoff = Backoff(1, 30, rng=random.Random(1))
    first_s = backoff.ended(100.0)
    assert backoff.ended(100.5) == pytest.approx(first_s - 0.5)
    assert 2 <= backoff.ended(100.0 + first_s) <= 10


def test_a_cause_that_needs_a_person_takes_the_longest_delay() -> None:
    backoff = Backoff(1, 30, spread=0)
    assert backoff.ended(0.0, hopeless=True) == 30
    assert backoff.ended(0.0) == 1  # and does not hold up others


def test_fifty_agents_that_lose_their_broker_at_once_come_back_spread_out() -> None:
    """Typically at most 20 connects in the busiest second, never more than half of them, all within 30 s."""
    busiest = []
    for seed in range(50):
        rng = random.Random(seed)
        at_s = [Backoff(rng=random.Random(rng.random())).ended(0.0) for _ in range(50)]
        assert max(at_s) <= 30
        busiest.append(max(sum(moment <= other < moment + 1 for other in at_s) for moment in at_s))
    assert statistics.median(busiest) <= 20
    assert max(busiest) <= 25


@pytest.mark.parametrize(("first_s", "most_s", "spread"), [(0, 30, 1), (-1, 30, 1), (31, 30, 1), (1, 30, -1)])
def test_impossible_settings_are_refused(first_s: float, most_s: float, spread: float) -> None:
    with pytest.raises(ValueError, match="back-off"):
        Backoff(first_s, most_s, spread)
