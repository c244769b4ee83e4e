"""Filters send what changes, and learn how much change that is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.bench.baseline_work import changed_share, scenes
from foveate.bench.filters import (
    THRESHOLDS,
    Segments,
    SegmentTrigger,
    StaticTrigger,
    first_frames,
    histogram,
    learn_segments,
    tune,
)
from tests.support.bench_work import walking


def test_a_still_scene_is_sent_once_and_a_moving_one_again() -> None:
    still, moving = walking(40, 0.0), walking(40, 8.0)
    assert sum(map(StaticTrigger(still.grey, 0.001), range(40))) == 1
    assert sum(map(StaticTrigger(moving.grey, 0.001), range(40))) == 40


@given(st.sampled_from(THRESHOLDS), st.sampled_from(THRESHOLDS))
def test_a_higher_threshold_never_sends_more(one: float, other: float) -> None:
    work = walking(40, 3.0)
    low, high = (sum(map(StaticTrigger(work.grey, t), range(40))) for t in sorted((one, other)))
    assert high <= low


def test_change_counts_against_the_last_frame_that_was_sent_so_that_creeping_is_seen() -> None:
    work = walking(60, 1.0)
    step = max(changed_share(now, before) for before, now in zip(work.grey, work.grey[1:], strict=False))
    assert sum(map(StaticTrigger(work.grey, 1.5 * step), range(60))) > 1


def test_the_tuned_threshold_is_the_highest_that_reaches_the_target() -> None:
    work = walking(60, 2.0)
    found = tune(work, 0.9, "hold")
    assert found > THRESHOLDS[0]
    assert found < tune(walking(60, 0.0), 0.9, "hold") == THRESHOLDS[-1]


def test_a_target_that_cannot_be_met_gives_the_lowest_threshold() -> None:
    assert tune(walking(30, 100.0), 1.01, "hold") == THRESHOLDS[0]


def test_first_frames_begin_at_0() -> None:
    part = first_frames(walking(40), 10, 20)
    assert part.captured_s[0] == 0
    assert len(part.shown) == len(part.grey) == len(part.jpeg_bytes) == 10


@given(st.integers(0, 12))
def test_a_histogram_is_of_shares(speed: int) -> None:
    assert histogram(walking(20, float(speed)).grey).sum() == pytest.approx(1.0)


def test_the_nearest_segment_counts_most() -> None:
    known = Segments(np.eye(30)[:6], np.array([0.001, 0.3, 0.3, 0.3, 0.3, 0.3]))
    assert known.predict(np.eye(30)[0]) == pytest.approx(0.001, rel=0.01)


def test_a_segment_has_the_threshold_predicted_from_the_one_before() -> None:
    work = walking(100, 2.0)
    learned = learn_segments([walking(400, 2.0)], 0.9)
    trigger = SegmentTrigger(work, learned)
    sent = [trigger(seq) for seq in range(100)]
    alone = StaticTrigger(work.grey, learned.predict(histogram(work.grey[:50])))
    assert 1 < sum(sent[50:]) < 50
    assert abs(sum(sent[50:]) - sum(map(alone, range(50, 100)))) <= 1


def test_a_scene_tells_count_speed_and_idleness() -> None:
    still, moving = scenes(walking(20, 0.0)), scenes(walking(20, 8.0))
    assert {s.count for s in still} == {1}
    assert all(s.idle for s in still[1:])
    assert not any(s.idle for s in moving)
    assert (moving[5].speed or 0) > (still[5].speed or 0) == 1.0
    assert sum(s.arrivals for s in moving) == 0
