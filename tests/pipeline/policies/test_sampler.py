"""Sampling goes by time, not by frame numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.sampler import EveryFrame, TokenClock


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


@pytest.mark.parametrize("rate_fps", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(rate_fps: float) -> None:
    with pytest.raises(ValueError, match="rate_fps"):
        TokenClock(rate_fps)


def test_every_frame_takes_every_frame() -> None:
    assert all(EveryFrame().take(at_s).due for at_s in (0.0, 0.0, -1.0, 5.0))
