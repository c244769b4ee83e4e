"""Admission decides at once, from the queue, the deadline and what is known about run times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.admission import (
    ADMISSION_KINDS,
    AdmissionBounds,
    Admit,
    CapacityAdmission,
    DeadlineAdmission,
    QueueLoad,
    Refuse,
)
from pipeline.wire.messages import Refusal

BOUNDS = AdmissionBounds(capacity=4, capacity_bytes=1000)


def refusal(verdict: Admit | Refuse) -> Refusal | None:
    return verdict.refusal if isinstance(verdict, Refuse) else None


def test_a_request_is_admitted_while_nothing_is_known_about_run_times() -> None:
    load = QueueLoad(length=3, held_bytes=0, ahead_s=0.0, run_s=None)
    assert DeadlineAdmission().decide(load, BOUNDS, 10, deadline_s=5.001, now_s=5.0) == Admit()


def test_a_budget_that_the_way_back_uses_up_is_infeasible_even_when_nothing_is_known() -> None:
    load = QueueLoad(length=0, held_bytes=0, ahead_s=0.0, run_s=None)
    assert refusal(DeadlineAdmission().decide(load, BOUNDS, 10, deadline_s=5.0, now_s=5.0)) is Refusal.INFEASIBLE


@pytest.mark.parametrize(("left_s", "expected"), [(0.0501, None), (0.0499, Refusal.INFEASIBLE)])
def test_what_is_ahead_and_the_run_itself_must_fit_into_what_is_left(left_s: float, expected: Refusal | None) -> None:
    load = QueueLoad(length=2, held_bytes=0, ahead_s=0.030, run_s=0.020)
    assert refusal(DeadlineAdmission().decide(load, BOUNDS, 10, deadline_s=left_s, now_s=0.0)) is expected


def test_the_refusal_gives_the_figures() -> None:
    load = QueueLoad(length=2, held_bytes=0, ahead_s=0.030, run_s=0.020)
    verdict = DeadlineAdmission().decide(load, BOUNDS, 10, deadline_s=0.01, now_s=0.0)
    assert isinstance(verdict, Refuse)
    assert verdict.detail == "needs 30.0 ms for what is ahead and 20.0 ms to run, 10.0 ms are left"


@given(
    kind=st.sampled_from(sorted(ADMISSION_KINDS)),
    length=st.integers(0, 8),
    held_bytes=st.integers(0, 2000),
    request_bytes=st.integers(1, 2000),
    left_s=st.floats(0.001, 10),
)
def test_no_kind_ever_admits_beyond_the_bounds(
    kind: str, length: int, held_bytes: int, request_bytes: int, left_s: float
) -> None:
    load = QueueLoad(length, held_bytes, 0.0, None)
    verdict = ADMISSION_KINDS[kind]().decide(load, BOUNDS, request_bytes, deadline_s=left_s, now_s=0.0)
    fits = length < BOUNDS.capacity and held_bytes + request_bytes <= BOUNDS.capacity_bytes
    assert isinstance(verdict, Admit) == fits
    assert refusal(verdict) in {None, Refusal.QUEUE_FULL}


@given(
    ahead_s=st.floats(0, 2), run_s=st.floats(0, 2), earlier_s=st.floats(0, 4), more_s=st.floats(0, 4),
)  # fmt: skip
def test_more_time_never_turns_an_admission_into_a_refusal(
    ahead_s: float, run_s: float, earlier_s: float, more_s: float
) -> None:
    load = QueueLoad(0, 0, ahead_s, run_s)
    policy = DeadlineAdmission()
    if policy.decide(load, BOUNDS, 1, deadline_s=earlier_s, now_s=0.0) == Admit():
        assert policy.decide(load, BOUNDS, 1, deadline_s=earlier_s + more_s, now_s=0.0) == Admit()


def test_the_capacity_kind_knows_no_deadlines() -> None:
    load = QueueLoad(length=0, held_bytes=0, ahead_s=9.0, run_s=9.0)
    assert CapacityAdmission().decide(load, BOUNDS, 1, deadline_s=0.1, now_s=0.0) == Admit()
