import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.sequential import SHARES, Bets, Hypothesis

LIMITS = st.floats(-0.9, 0.9)
VALUES = st.floats(-1.0, 1.0)


def capital(bets: Bets) -> float:
    return math.exp(bets.log_evidence)


@given(LIMITS, st.lists(VALUES, max_size=30))
def test_while_the_mean_is_at_the_limit_the_capital_neither_gains_nor_loses_on_average(
    limit: float, before: list[float]
) -> None:
    against, bets = Hypothesis(-1.0, 1.0, limit), Bets()
    for value in before:
        bets = bets.add(value, against)
    chance_of_high = (limit + 1.0) / 2.0  # of 1, the rest of -1: the mean is the limit
    expected = chance_of_high * capital(bets.add(1.0, against)) + (1 - chance_of_high) * capital(
        bets.add(-1.0, against)
    )
    assert expected == pytest.approx(capital(bets), rel=1e-9)


@given(LIMITS, st.lists(VALUES, max_size=200))
def test_no_values_ruin_a_bet_or_make_it_infinite(limit: float, values: list[float]) -> None:
    bets = Bets()
    for value in values:
        bets = bets.add(value, Hypothesis(-1.0, 1.0, limit))
    assert all(math.isfinite(log) for log in bets.logs)
    assert bets.samples == len(values)


def test_a_fault_that_begins_after_a_long_good_time_is_refuted_nearly_as_soon() -> None:
    bets, against, count = Bets(), Hypothesis(-1.0, 1.0, 0.05), 0
    for _ in range(1500):
        bets = bets.add(0.0, against)
    while not bets.refutes(0.004):
        bets = bets.add(0.8, against)
        count += 1
    assert count <= 40


def test_a_true_hypothesis_is_refuted_more_rarely_than_stated_however_often_it_is_looked_at() -> None:
    rng, against, alpha, refuted = random.Random(1), Hypothesis(0.0, 1.0, 0.3), 0.05, 0
    for _ in range(400):
        bets = Bets()
        for _ in range(200):
            bets = bets.add(float(rng.random() < 0.3), against)
            if bets.refutes(alpha):
                refuted += 1
                break
    assert refuted <= 0.05 * 400


def test_a_false_hypothesis_is_refuted_soon() -> None:
    bets, against = Bets(), Hypothesis(-1.0, 1.0, 0.05)
    for _ in range(20):
        bets = bets.add(0.8, against)
    assert bets.refutes(0.004)


def test_a_change_after_a_long_good_time_is_noticed_as_soon_as_one_at_the_start() -> None:
    def until_alarm(good: int) -> int:
        bets, against = Bets.alarm(), Hypothesis(0.0, 1.0, 0.3)
        for _ in range(good):
            bets = bets.add_restarting(0.1, against)
        count = 0
        while not bets.refutes(1e-5):
            bets = bets.add_restarting(0.9, against)
            count += 1
        return count

    assert until_alarm(5000) <= until_alarm(0)


def test_the_mean_number_of_values_until_a_false_alarm_is_at_least_as_stated() -> None:
    rng, against, alpha, runs = random.Random(2), Hypothesis(0.0, 1.0, 0.3), 0.02, []
    for _ in range(60):
        bets, count = Bets.alarm(), 0
        while not bets.refutes(alpha) and count < 400:
            bets = bets.add_restarting(float(rng.random() < 0.3), against)
            count += 1
        runs.append(count)
    assert sum(runs) / len(runs) >= 1 / alpha


@pytest.mark.parametrize("value", [-1.1, 1.1, math.nan])
def test_a_value_outside_of_what_was_agreed_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="is not between"):
        Bets().add(value, Hypothesis(-1.0, 1.0, 0.0))


@pytest.mark.parametrize("limit", [0.0, 1.0, 2.0])
def test_a_limit_must_leave_room_on_both_sides(limit: float) -> None:
    with pytest.raises(ValueError, match="is not between"):
        Hypothesis(0.0, 1.0, limit)


def test_a_fresh_bet_has_won_nothing() -> None:
    assert Bets().log_evidence == pytest.approx(0.0)
    assert len(Bets().logs) == len(SHARES)
