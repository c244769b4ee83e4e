import random

from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.capture.reconnect import AUTH_RETRY_S, NOISE_EVERY_S, Backoff, NoiseMeter


@settings(deadline=None)
@given(seed=st.integers(), sessions=st.lists(st.floats(0, 100), max_size=30))
def test_delays_stay_within_their_bounds(seed: int, sessions: list[float]) -> None:
    backoff = Backoff(1.0, 30.0, random.Random(seed))
    for session_s in sessions:
        assert 0.75 <= backoff.next_delay_s(session_s) <= 30.0


def test_delays_double_from_one_second_to_thirty() -> None:
    backoff = Backoff(1.0, 30.0, random.Random(1))
    delays = [backoff.next_delay_s(0.0) for _ in range(8)]
    for delay_s, plain_s in zip(delays, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert 0.75 * plain_s <= delay_s <= min(1.25 * plain_s, 30)


def test_no_two_cameras_wait_alike() -> None:
    first, second = (Backoff(1.0, 30.0, random.Random(seed)) for seed in (1, 2))
    assert [first.next_delay_s(0) for _ in range(5)] != [second.next_delay_s(0) for _ in range(5)]


def test_a_long_session_starts_the_delays_again_and_a_short_one_does_not() -> None:
    backoff = Backoff(1.0, 30.0, random.Random(1))
    for _ in range(4):
        backoff.next_delay_s(0.5)
    assert backoff.next_delay_s(3.0) > 8
    assert backoff.next_delay_s(3600.0) < 2


@settings(deadline=None)
@given(seed=st.integers())
def test_a_refused_password_is_tried_again_after_a_minute_at_the_earliest(seed: int) -> None:
    assert Backoff(1.0, 30.0, random.Random(seed)).auth_delay_s() >= AUTH_RETRY_S


@settings(deadline=None)
@given(bursts=st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 30)), max_size=60))
def test_noise_is_counted_in_full_and_reported_once_a_minute(bursts: list[tuple[int, float]]) -> None:
    meter, now_s, reports = NoiseMeter(), 0.0, []
    for lines, gap_s in bursts:
        now_s += gap_s
        if meter.see(lines, "damaged", now_s):
            reports.append(now_s)
    assert meter.lines == sum(lines for lines, _ in bursts)
    assert len(reports) <= now_s / NOISE_EVERY_S + 1
    assert bool(reports) == bool(bursts)


def test_a_report_says_how_many_lines_it_stands_for() -> None:
    meter = NoiseMeter()
    meter.see(1, "a", 0.0)
    meter.see(900, "b", 1.0)
    assert meter.see(100, "c", NOISE_EVERY_S) == "c (1000 such lines)"
