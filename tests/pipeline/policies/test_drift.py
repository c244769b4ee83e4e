import random

from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.drift import Drift, DriftSettings, judge_drift

SETTINGS = DriftSettings()
SHARE = st.floats(0.0, 1.0)


def audits_until_something(own_f1: float, general_f1: float | None, released_f1: float = 0.9) -> tuple[str, int, str]:
    drift = Drift(released_f1)
    for number in range(1, 301):
        drift = drift.add(own_f1, general_f1, SETTINGS)
        decision = judge_drift(drift, SETTINGS)
        if decision.kind != "none":
            return decision.kind, number, decision.reason
    return "none", 300, ""


def test_a_model_that_sees_nothing_any_more_falls_back_within_fifty_audits() -> None:
    kind, after, reason = audits_until_something(0.1, 0.7)
    assert kind == "fall_back"
    assert after < 50
    assert "F1" in reason


def test_a_model_that_is_behind_the_general_one_falls_back_although_it_is_as_it_was_released() -> None:
    kind, _, reason = audits_until_something(0.7, 0.95, released_f1=0.7)
    assert kind == "fall_back"
    assert "behind the general model" in reason


def test_where_only_the_larger_model_looks_a_fall_is_noticed_all_the_same() -> None:
    kind, after, reason = audits_until_something(0.2, None)
    assert kind == "fall_back"
    assert after < 60
    assert "has fallen to F1 0.200 from 0.900" in reason


def test_in_a_scene_that_is_hard_for_both_the_better_one_stays_and_lessons_are_wanted() -> None:
    kind, _, reason = audits_until_something(0.4, 0.3)
    assert kind == "learn_again"
    assert "lower still" in reason


def test_a_model_that_is_as_it_was_released_stays() -> None:
    assert audits_until_something(0.9, 0.8)[0] == "none"
    assert audits_until_something(0.8, 0.8)[0] == "none"


def test_a_model_that_is_well_is_not_given_up_in_ten_thousand_audits() -> None:
    rng, drift = random.Random(4), Drift(0.85)
    for _ in range(10_000):
        own = rng.choice([0.6, 0.8, 1.0, 1.0])
        drift = drift.add(own, rng.choice([0.6, 0.8, 1.0, 1.0]), SETTINGS)
        assert judge_drift(drift, SETTINGS).kind == "none"


@given(SHARE, st.lists(st.tuples(SHARE, st.none() | SHARE), max_size=60))
def test_means_stay_between_the_worst_and_the_best(
    released_f1: float, audits: list[tuple[float, float | None]]
) -> None:
    drift = Drift(released_f1)
    for own, general in audits:
        drift = drift.add(own, general, SETTINGS)
        judge_drift(drift, SETTINGS)
    assert drift.audits == len(audits)
    assert drift.pairs == sum(general is not None for _, general in audits)
    assert -1.0 <= drift.ahead <= 1.0
    assert drift.recent_f1 is None or -1e-9 <= drift.recent_f1 <= 1.0 + 1e-9
