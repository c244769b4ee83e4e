"""Sampling goes by time, not by frame numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.sampler import AdaptiveRate, RateSettings, TokenClock


def taken(rate_fps: float, times_s: list[float]) -> list[float]:
    clock = TokenClock(rate_fps)
    return [at_s for at_s in times_s if clock.take(at_s).due]


@pytest.mark.parametrize("shift_s", [0.0, -0.5], ids=["as recorded", "with negative time stamps"])
def test_a_variable_frame_rate_gives_one_frame_per_second_of_time(shift_s: float) -> None:
    times_s = [ms / 1000 + shift_s for ms in (0, 40, 1000, 1040, 5000, 5040)]
    assert taken(1.0, times_s) == [0.0 + shift_s, 1.0 + shift_s, 5.0 + shift_s]


@pytest.mark.parametrize(
    ("camera_fps", "rate_fps", "every"), [(25.0, 5.0, 5), (10.0, 5.0, 2), (30.0, 10.0, 3), (5.0, 5.0, 1)]
)
def test_a_steady_camera_is_sampled_evenly(camera_fps: float, rate_fps: float, every: int) -> None:
    times_s = [n / camera_fps for n in range(300)]
    assert taken(rate_fps, times_s) == times_s[::every]


def test_a_camera_slower_than_the_rate_is_taken_whole() -> None:
    times_s = [n / 3.0 for n in range(30)]
    assert taken(5.0, times_s) == times_s


def test_after_a_gap_nothing_is_caught_up() -> None:
    times_s = [0.0, 60.0, 60.04, 60.08, 60.12, 60.16, 60.2]
    assert taken(5.0, times_s) == [0.0, 60.0, 60.2]


def test_time_that_falls_restarts_the_clock() -> None:
    clock = TokenClock(1.0)
    assert [clock.take(at_s).reason for at_s in (10.0, 10.5, 3.0, 3.5, 4.0)] == [
        "first",
        "not_due",
        "first",
        "not_due",
        "due",
    ]


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.03))
def test_jitter_of_a_10_fps_camera_does_not_lower_5_fps(seed: int, spread_s: float) -> None:
    jitter_s = np.random.default_rng(seed).uniform(-spread_s, spread_s, 300)
    times_s = sorted(n / 10 + shift_s for n, shift_s in enumerate(jitter_s.tolist()))
    count = len(taken(5.0, times_s))
    assert 0.98 * 150 <= count <= 1.02 * 150


@pytest.mark.parametrize("phase", [n / 20 for n in range(20)])
@pytest.mark.parametrize("camera_fps", [9.98, 10.0, 10.02])
def test_jitter_of_a_camera_about_as_fast_as_the_rate_costs_few_frames_wherever_its_beat_lies(
    camera_fps: float, phase: float
) -> None:
    jitter = np.random.default_rng(1).uniform(-0.2, 0.2, 600).tolist()
    times_s = [1000.0 + (n + phase + jitter[n]) / camera_fps for n in range(600)]
    assert len(taken(10.0, times_s)) >= 0.98 * 600


@given(
    st.floats(0.2, 30.0),
    st.lists(st.floats(0.001, 3.0), min_size=1, max_size=200),
)
def test_never_more_than_the_rate_over_any_stretch(rate_fps: float, gaps_s: list[float]) -> None:
    times_s, at_s = list[float](), 0.0
    for gap_s in gaps_s:
        at_s += gap_s
        times_s.append(at_s)
    due_s = taken(rate_fps, times_s)
    # ahead: frames taken less periods passed; between any two frames it may rise by little more than one.
    ahead = [number - at_s * rate_fps for number, at_s in enumerate(due_s)]
    lowest = ahead[0]
    for value in ahead:
        lowest = min(lowest, value)
        assert value - lowest <= 1.1 + 1e-6


@pytest.mark.parametrize("lowered_fps", [None, 10 / 3, 2.5, 1.0])
@pytest.mark.parametrize("camera_fps", [10.0, 15.0, 25.0, 30.0])
@pytest.mark.parametrize("later", [0, 1, 37])
def test_those_who_watch_one_camera_take_the_same_frames_whenever_each_began(
    camera_fps: float, later: int, lowered_fps: float | None
) -> None:
    """Each has a frame up to 3 ms late. Where the camera's phase lies just at the limit they differ: seldom in all."""
    chance = np.random.default_rng(1)

    def numbers(first: int, start_s: float) -> set[int]:
        clock, late_s = TokenClock(5.0), chance.uniform(0.0, 0.003, 200).tolist()
        return {n for n in range(first, 200) if clock.take(start_s + n / camera_fps + late_s[n], lowered_fps).due}

    shared, taken_by_one = 0, 0
    for start_s in chance.uniform(1000.0, 1001.0, 100).tolist():
        one, other = numbers(0, start_s), numbers(later, start_s)
        from_then_on = later + camera_fps  # its first one is taken wherever it lies
        shared += len({number for number in one & other if number > from_then_on})
        taken_by_one += len({number for number in one if number > from_then_on})
    assert shared >= 0.9 * taken_by_one


@pytest.mark.parametrize("rate_fps", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(rate_fps: float) -> None:
    with pytest.raises(ValueError, match="rate_fps"):
        TokenClock(rate_fps)


def test_a_lower_bound_on_the_rate_holds_while_it_is_asked_for() -> None:
    clock = TokenClock(5.0)
    times_s = [n / 25 for n in range(250)]
    kept = [at_s for at_s in times_s if clock.take(at_s, 2.0 if 2 <= at_s < 8 else None).due]
    assert len([at_s for at_s in kept if at_s < 2]) == 10
    assert len([at_s for at_s in kept if 2 <= at_s < 8]) in {12, 13}, "one may be a little early"
    assert len([at_s for at_s in kept if at_s >= 8]) in {9, 10}


def test_a_bound_above_the_rate_changes_nothing() -> None:
    clock = TokenClock(5.0)
    times_s = [n / 25 for n in range(100)]
    assert [at_s for at_s in times_s if clock.take(at_s, 50.0).due] == times_s[::5]


SETTINGS = RateSettings(most_fps=5.0)
FRAME_S = 0.2


def observe(rate: AdaptiveRate, seconds: float, speed: float, births: int = 0, from_s: float = 0.0) -> list[float]:
    """The rate after each frame of so many seconds."""
    return [rate.observe(speed, births, from_s + n * FRAME_S) for n in range(int(seconds / FRAME_S))]


def test_it_begins_at_the_full_rate_and_sinks_rung_by_rung_where_nothing_moves() -> None:
    rates = observe(AdaptiveRate(SETTINGS), 20, 0.0)
    assert rates[0] == 5.0
    assert rates[-1] == SETTINGS.least_fps
    assert rates == sorted(rates, reverse=True)
    assert len(set(rates)) >= 4


def test_fast_tracks_raise_it_at_once() -> None:
    rate = AdaptiveRate(SETTINGS)
    observe(rate, 20, 0.0)
    assert rate.observe(2.0, 0, 20.0) == 5.0


def test_many_new_tracks_raise_it_and_a_single_one_for_a_moment() -> None:
    rate = AdaptiveRate(SETTINGS)
    observe(rate, 20, 0.0)
    rate.observe(0.0, 1, 20.0)
    assert rate.observe(0.0, 1, 20.2) == 5.0
    assert observe(rate, 20, 0.0, from_s=20.4)[-1] == SETTINGS.least_fps


def test_in_between_it_is_just_high_enough_for_the_speed() -> None:
    assert observe(AdaptiveRate(SETTINGS), 30, 0.15 * 1.9)[-1] == 2.5


def test_a_least_rate_above_the_full_one_is_the_full_one() -> None:
    rate = AdaptiveRate(RateSettings(most_fps=0.5, least_fps=1.0))
    assert set(observe(rate, 20, 0.0)) == {0.5}


def test_time_that_falls_starts_at_the_full_rate() -> None:
    rate = AdaptiveRate(SETTINGS)
    observe(rate, 20, 0.0, from_s=100.0)
    assert rate.observe(0.0, 0, 1.0) == 5.0


observations = st.lists(st.tuples(st.floats(0, 20), st.integers(0, 5), st.floats(0.01, 3)), max_size=200)


@given(observations, st.floats(0.1, 60), st.floats(0.1, 60))
def test_it_stays_within_its_bounds_and_never_sinks_twice_within_the_dwell_time(
    seen: list[tuple[float, int, float]], most_fps: float, least_fps: float
) -> None:
    settings = RateSettings(most_fps, least_fps)
    rate, now_s, before, sank_s = AdaptiveRate(settings), 0.0, most_fps, float("-inf")
    for speed, births, step_s in seen:
        now_s += step_s
        after = rate.observe(speed, births, now_s)
        assert min(least_fps, most_fps) <= after <= most_fps
        if after < before:
            assert now_s - sank_s >= settings.dwell_s - 1e-9
            sank_s = now_s
        before = after


@given(observations)
def test_it_is_never_too_low_for_what_was_just_seen(seen: list[tuple[float, int, float]]) -> None:
    rate, now_s = AdaptiveRate(SETTINGS), 0.0
    for speed, births, step_s in seen:
        now_s += step_s
        assert rate.observe(speed, births, now_s) >= min(speed / SETTINGS.step_widths, SETTINGS.most_fps) - 1e-9
