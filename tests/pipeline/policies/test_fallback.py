"""The edge's answer goes out when the cloud's is not to be expected any more, and never after its time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.fallback import Bound, Wait, WaitSettings, decay, still_useful, wait, worth_asking

SETTINGS = WaitSettings(stretch=1.25, least_ms=30.0)
moments_s = st.floats(0.0, 1e6)
p95s_ms = st.one_of(st.none(), st.floats(0.0, 1e5))


def test_without_recent_round_trips_the_deadline_alone_counts() -> None:
    assert wait(10.0, 10.13, None, SETTINGS) == Wait(10.13, Bound.DEADLINE)


def test_an_answer_that_is_overdue_is_not_waited_for() -> None:
    overdue = wait(10.0, 10.13, 60.0, SETTINGS)
    assert overdue.until_s == pytest.approx(10.075)
    assert overdue.bound is Bound.OVERDUE


def test_round_trips_longer_than_what_is_left_leave_the_deadline() -> None:
    assert wait(10.0, 10.13, 120.0, SETTINGS).bound is Bound.DEADLINE


def test_a_very_quick_way_is_given_the_least_wait() -> None:
    assert wait(10.0, 10.13, 2.0, SETTINGS).until_s == pytest.approx(10.03)


@given(moments_s, st.floats(0.0, 10.0), p95s_ms)
def test_the_wait_ends_by_the_deadline_and_never_before_the_least_wait(
    sent_at_s: float, left_s: float, p95_ms: float | None
) -> None:
    settle_at_s = sent_at_s + left_s
    chosen = wait(sent_at_s, settle_at_s, p95_ms, SETTINGS)
    assert chosen.until_s <= settle_at_s
    assert chosen.until_s >= min(settle_at_s, sent_at_s + 0.03)
    assert (chosen.bound is Bound.DEADLINE) == (chosen.until_s == settle_at_s)


@given(moments_s, st.floats(0.0, 10.0), st.floats(0.0, 1e5), st.floats(0.0, 1e5))
def test_a_slower_way_is_waited_for_no_less(sent_at_s: float, left_s: float, one_ms: float, other_ms: float) -> None:
    quick, slow = (wait(sent_at_s, sent_at_s + left_s, p95_ms, SETTINGS) for p95_ms in sorted((one_ms, other_ms)))
    assert quick.until_s <= slow.until_s


def test_an_answer_has_no_effect_beyond_two_seconds() -> None:
    assert [still_useful(age_s) for age_s in (0.0, 2.0, 2.001)] == [True, True, False]


def test_only_a_young_frame_is_worth_asking_about_afterwards() -> None:
    assert [worth_asking(age_s) for age_s in (0.0, 0.3, 0.31)] == [True, True, False]


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_confidence_halves_with_each_second_and_never_grows(one_s: float, other_s: float) -> None:
    young, old, older = decay(np.array([min(one_s, other_s), max(one_s, other_s), max(one_s, other_s) + 1.0]))
    assert 1.0 >= young >= old
    assert older == pytest.approx(old / 2)
    assert decay(np.array([0.0, -1e-12])).tolist() == [1.0, 1.0]
