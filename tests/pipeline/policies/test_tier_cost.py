"""Costs have no unit, grow with what is spent, and weigh as they are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.policies.tier_cost import PRESETS, Allowance, Arrival, Expense, Weights, cost, mean_shortfall

parts = st.floats(0.0, 1e6)
expenses = st.builds(Expense, parts, parts, parts, st.floats(0.0, 1.0))
weights = st.builds(Weights, *[st.floats(0.01, 10.0)] * 4)


@given(weights, st.floats(1.0, 1e4))
def test_what_takes_all_that_it_may_costs_one(weighed: Weights, deadline_ms: float) -> None:
    allowance = Allowance()
    full = Expense(deadline_ms, allowance.billed_bytes, allowance.energy_j, allowance.shortfall)
    assert cost(full, deadline_ms, allowance, weighed) == pytest.approx(1.0)


@given(expenses, weights, st.floats(0.5, 1000.0))
def test_a_cost_is_the_same_in_other_units(expense: Expense, weighed: Weights, factor: float) -> None:
    in_other_units = Expense(
        expense.latency_ms * factor, expense.billed_bytes * factor, expense.energy_j * factor, expense.shortfall
    )
    plain, scaled = Allowance(16_000, 2.0), Allowance(16_000 * factor, 2.0 * factor)
    assert cost(in_other_units, 200.0 * factor, scaled, weighed) == pytest.approx(cost(expense, 200.0, plain, weighed))


@given(expenses, expenses, weights)
def test_spending_more_never_costs_less(one: Expense, more: Expense, weighed: Weights) -> None:
    total = Expense(
        one.latency_ms + more.latency_ms,
        one.billed_bytes + more.billed_bytes,
        one.energy_j + more.energy_j,
        one.shortfall + more.shortfall,
    )
    assert cost(total, 200.0, Allowance(), weighed) >= cost(one, 200.0, Allowance(), weighed)


@pytest.mark.parametrize(("preset", "least"), [("latency", "near"), ("bandwidth", "near"), ("energy", "far")])
def test_each_preset_minds_what_it_is_named_after(preset: str, least: str) -> None:
    # Near is quick, on site and thirsty; far is slow, behind the uplink and thrifty.
    choices = {"near": Expense(40.0, 0.0, 2.0), "far": Expense(120.0, 12_000.0, 0.2)}
    costs = {name: cost(expense, 200.0, Allowance(), PRESETS[preset]) for name, expense in choices.items()}
    assert min(costs, key=costs.__getitem__) == least


def test_weights_and_allowances_that_say_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="all weights are 0"):
        Weights(0.0, 0.0, 0.0, 0.0)
    with pytest.raises(ConfigError, match="weight energy is -1"):
        Weights(1.0, 1.0, -1)
    with pytest.raises(ConfigError, match="weight bytes is nan"):
        Weights(1.0, float("nan"), 1.0)
    with pytest.raises(ConfigError, match="allowance energy_j is 0"):
        Allowance(energy_j=0)


@pytest.mark.parametrize(
    ("second_ms", "lacking"), [(20.0, 0.0), (100.0, 0.05), (60.0, 0.025), (180.0, 0.1), (999.0, 0.1)]
)
def test_a_better_answer_is_worth_less_the_later_it_comes(second_ms: float, lacking: float) -> None:
    assert mean_shortfall(Arrival(20.0, 0.1), Arrival(second_ms, 0.0), 180.0) == pytest.approx(lacking)


@given(st.floats(0.0, 500.0), st.floats(0.0, 500.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 500.0))
def test_what_two_answers_lack_lies_between_what_each_lacks(
    first_ms: float, later_ms: float, first: float, second: float, until_ms: float
) -> None:
    lacking = mean_shortfall(Arrival(first_ms, first), Arrival(first_ms + later_ms, second), until_ms)
    assert min(first, second) - 1e-9 <= lacking <= max(first, second) + 1e-9
    assert mean_shortfall(Arrival(first_ms, first), Arrival(first_ms, first), until_ms) == first
