"""The uplink budget is never overspent by more than one burst, and is shared by weight."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.tokens import SharedBudget

NAMES = ("a", "b", "c")
weights = st.fixed_dictionaries({name: st.floats(0.1, 10.0) for name in NAMES})
steps = st.lists(st.tuples(st.floats(0.0, 5.0), st.sampled_from(NAMES), st.floats(0.0, 50_000.0)), max_size=60)


def alone(rate_kbps: float | None, burst_s: float, now_s: float = 0.0) -> SharedBudget:
    return SharedBudget.full(rate_kbps, burst_s, {"a": 1.0}, now_s)


def level_bytes(budget: SharedBudget, name: str = "a") -> float:
    return budget.shares[name].level_bytes


def may_send(budget: SharedBudget, name: str, size_bytes: float) -> bool:
    """Whether a camera may send so much that keeps to its burst."""
    available_bytes = budget.available_bytes(name)
    return size_bytes <= (budget.shares[name].burst_bytes if available_bytes is None else available_bytes)


def test_a_budget_in_kbit_s_is_kept_in_bytes() -> None:
    budget = alone(600, 2.0)
    assert (budget.rate_bytes_s, budget.shares["a"].burst_bytes, level_bytes(budget)) == (75_000, 150_000, 150_000)


def test_it_fills_with_time_up_to_the_burst() -> None:
    budget = alone(8, 2.0).take("a", 2000)
    assert level_bytes(budget.at(0.5)) == 500
    assert level_bytes(budget.at(100.0)) == 2000


def test_time_that_falls_adds_and_takes_nothing() -> None:
    budget = alone(8, 2.0, 10.0).take("a", 1500)
    back = budget.at(5.0)
    assert level_bytes(back) == 500
    assert level_bytes(back.at(10.0)) == 500


def test_an_estimate_that_was_too_low_is_paid_back_before_the_next_one() -> None:
    budget = alone(8, 1.0).take("a", 3000)
    assert level_bytes(budget) == -2000
    assert budget.at(2.0).available_bytes("a") == 0
    assert budget.at(2.5).available_bytes("a") == 500


def test_what_exceeds_the_whole_burst_may_go_when_the_bucket_is_full() -> None:
    budget = alone(8, 1.0)
    assert budget.available_bytes("a") is None
    assert budget.take("a", 1).available_bytes("a") == 999
    assert budget.take("a", 5000).at(5.0).available_bytes("a") is None


def test_no_budget_is_no_limit() -> None:
    budget = alone(None, 2.0)
    assert budget.take("a", 1e12).at(1.0).available_bytes("a") is None
    assert budget.wait_s("a", 1e12) == 0


def test_what_is_due_to_a_camera_while_all_send_is_its_weights_part_of_the_rate() -> None:
    budget = SharedBudget.full(800, 2.0, {"a": 1.0, "b": 3.0}, 0.0)
    assert (budget.due_bytes_s("a"), budget.due_bytes_s("b")) == (25_000, 75_000)
    assert budget.take("b", 50_000).due_bytes_s("b") == 75_000
    assert alone(None, 2.0).due_bytes_s("a") is None


def test_who_can_wait_is_told_how_long_at_least() -> None:
    budget = alone(8, 2.0).take("a", 1500)
    assert budget.wait_s("a", 400) == 0
    assert budget.wait_s("a", 1500) == 1
    assert budget.wait_s("a", 9000) == budget.wait_s("a", 2000) == 1.5  # beyond the burst: until the bucket is full


def test_a_silent_cameras_share_of_the_rate_is_lent_to_those_that_send() -> None:
    budget, sent_bytes = SharedBudget.full(80, 1.0, {"a": 1.0, "b": 3.0}, 0.0), 0.0
    for step in range(1, 101):
        budget = budget.at(step / 10)
        available_bytes = budget.available_bytes("a")
        size_bytes = 1000.0 if available_bytes is None else min(1000.0, available_bytes)
        budget, sent_bytes = budget.take("a", size_bytes), sent_bytes + size_bytes
    assert sent_bytes == pytest.approx(80_000 / 8 * 10)
    assert budget.available_bytes("b") is None  # and what it has saved up is still its own


def test_a_bucket_is_as_full_as_it_was_when_the_rate_becomes_another() -> None:
    budget = alone(80, 2.0).take("a", 15_000).paced(1000.0, 2.0, {"a": 1.0})
    assert budget.fill("a") == pytest.approx(0.25)
    assert (budget.rate_bytes_s, budget.shares["a"].burst_bytes) == (1000.0, 2000.0)
    assert budget.at(1.0).fill("a") == pytest.approx(0.75)


def test_a_limit_that_comes_up_starts_with_full_buckets_and_one_that_goes_leaves_none() -> None:
    limited = alone(None, 2.0).paced(1000.0, 2.0, {"a": 1.0})
    assert limited.fill("a") == 1.0
    assert alone(None, 2.0).fill("a") is None
    assert limited.paced(None, 2.0, {"a": 1.0}).available_bytes("a") is None


@given(st.floats(1.0, 10_000.0), st.floats(0.1, 10.0), weights, steps)
def test_no_level_exceeds_its_burst(
    rate_kbps: float, burst_s: float, by: dict[str, float], moves: list[tuple[float, str, float]]
) -> None:
    budget, now_s = SharedBudget.full(rate_kbps, burst_s, by, 0.0), 0.0
    for gap_s, name, size_bytes in moves:
        now_s += gap_s
        budget = budget.at(now_s).take(name, size_bytes)
        assert all(share.level_bytes <= share.burst_bytes * (1 + 1e-9) for share in budget.shares.values())


@given(st.floats(1.0, 1000.0), st.floats(0.1, 10.0), weights, steps)
def test_all_together_never_send_more_than_rate_times_time_and_one_burst(
    rate_kbps: float, burst_s: float, by: dict[str, float], moves: list[tuple[float, str, float]]
) -> None:
    budget, now_s, sent_bytes = SharedBudget.full(rate_kbps, burst_s, by, 0.0), 0.0, 0.0
    for gap_s, name, size_bytes in moves:
        now_s += gap_s
        budget = budget.at(now_s)
        if may_send(budget, name, size_bytes):
            budget, sent_bytes = budget.take(name, size_bytes), sent_bytes + size_bytes
        assert sent_bytes <= rate_kbps * 125 * (now_s + burst_s) + 1e-3


@given(st.floats(1.0, 1000.0), st.floats(0.1, 10.0), weights, steps)
def test_a_storm_keeps_no_camera_below_its_weighted_share(
    rate_kbps: float, burst_s: float, by: dict[str, float], moves: list[tuple[float, str, float]]
) -> None:
    """The bucket of each camera is never emptier than one that had its share of the rate all for itself."""
    shared, now_s = SharedBudget.full(rate_kbps, burst_s, by, 0.0), 0.0
    own = {n: SharedBudget.full(rate_kbps * by[n] / sum(by.values()), burst_s, {n: 1.0}, 0.0) for n in NAMES}
    for gap_s, name, size_bytes in moves:
        now_s += gap_s
        shared, own = shared.at(now_s), {n: each.at(now_s) for n, each in own.items()}
        for each in NAMES:
            assert level_bytes(shared, each) >= level_bytes(own[each], each) - 1e-3
        shared, own[name] = shared.take(name, size_bytes), own[name].take(name, size_bytes)
