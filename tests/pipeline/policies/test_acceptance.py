"""When a trained model may take the place of another: never where it is worse, or where nobody can tell."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.acceptance import (
    AcceptanceSettings,
    ClassFigures,
    Difference,
    Grounds,
    JudgedFigures,
    Rivalry,
    accept,
)

LIMITS = AcceptanceSettings()
GROUNDS = Grounds(pictures=80, with_objects=60, objects=200, blocks=20)
GENERAL = JudgedFigures("general@1", 0.85, 0.87, 0.06, 0.02, 6.0, {"person": ClassFigures(0.85, 200)})
STUDENT = JudgedFigures("student@1", 0.90, 0.91, 0.05, 0.01, 1.4, {"person": ClassFigures(0.90, 200)})


def rivalry(trained: JudgedFigures, rival: JudgedFigures = GENERAL, below: float = 0.01) -> Rivalry:
    """A rival with differences that fit the figures; the lower bound lies ``below`` the difference."""
    return Rivalry(
        rival,
        Difference(trained.f1 - rival.f1, trained.f1 - rival.f1 - below),
        Difference(trained.best_f1 - rival.best_f1, trained.best_f1 - rival.best_f1 - below),
    )


shares = st.floats(0, 1)
figures = st.builds(
    JudgedFigures,
    st.just("any@1"),
    shares,
    shares,
    shares,
    shares,
    st.floats(0.1, 50),
    st.dictionaries(st.sampled_from(["person", "car"]), st.builds(ClassFigures, shares, st.integers(0, 300))),
)


def test_a_better_and_faster_model_is_accepted_and_the_reason_says_what_it_brings() -> None:
    decision = accept(STUDENT, [rivalry(STUDENT)], GROUNDS)
    assert decision.accepted
    assert "0.900 against 0.850 of general@1" in decision.reasons[0]
    assert "1.4 ms" in decision.reasons[0]


def test_a_model_as_good_and_much_faster_is_accepted() -> None:
    twin = replace(STUDENT, f1=GENERAL.f1 - 0.001, best_f1=GENERAL.best_f1 - 0.001, classes=GENERAL.classes)
    assert accept(twin, [rivalry(twin, below=0.005)], GROUNDS).accepted


@given(objects=st.integers(0, 19), found=shares, its=st.floats(0.1, 1))
def test_a_model_that_loses_a_rare_class_is_refused_however_good_it_is_at_the_others(
    objects: int, found: float, its: float
) -> None:
    both = {"person": ClassFigures(0.95, 600), "dog": ClassFigures(found, objects)}
    student = replace(STUDENT, classes=both)
    general = replace(GENERAL, classes={**GENERAL.classes, "dog": ClassFigures(its, objects)})
    lost = objects >= LIMITS.few_objects and found < its / 2
    assert accept(student, [rivalry(student, general)], GROUNDS).accepted == (not lost)


def test_what_was_seen_from_scratch_on_a_nearly_empty_scene_is_refused() -> None:
    student = replace(STUDENT, f1=0.17, best_f1=0.18, classes={"person": ClassFigures(0.17, 200)})
    general = replace(GENERAL, f1=0.58, best_f1=0.60, classes={"person": ClassFigures(0.58, 200)})
    decision = accept(student, [rivalry(student, general)], GROUNDS)
    assert not decision.accepted
    assert any("0.170" in reason for reason in decision.reasons)


@given(trained=figures, rival=figures, below=st.floats(0, 0.5), ground=st.builds(Grounds, *[st.integers(0, 500)] * 4))
def test_a_worse_model_is_never_accepted(
    trained: JudgedFigures, rival: JudgedFigures, below: float, ground: Grounds
) -> None:
    decision = accept(trained, [rivalry(trained, rival, below)], ground)
    if decision.accepted:
        assert trained.f1 >= rival.f1 - LIMITS.most_loss - 1e-9
        assert trained.best_f1 >= rival.best_f1 - LIMITS.most_loss - 1e-9
        assert trained.f1 - rival.f1 - below >= -LIMITS.margin - 1e-9
        assert trained.median_ms <= LIMITS.slowest * rival.median_ms
        assert ground.blocks >= LIMITS.least_blocks
    assert decision.reasons


@given(trained=figures, worse_by=st.floats(0.011, 1.0), one_more=figures)
def test_one_rival_that_is_better_is_enough_to_refuse(
    trained: JudgedFigures, worse_by: float, one_more: JudgedFigures
) -> None:
    better = replace(trained, f1=trained.f1 + worse_by, best_f1=trained.best_f1 + worse_by, median_ms=1000.0)
    rivals = [rivalry(trained, one_more, 0.0), rivalry(trained, better, 0.0)]
    assert not accept(trained, rivals, GROUNDS).accepted


def test_a_difference_that_nothing_bounds_is_refused() -> None:
    unknown = replace(rivalry(STUDENT), at_best=Difference(0.05, float("nan")))
    decision = accept(STUDENT, [unknown], GROUNDS)
    assert not decision.accepted
    assert "lower bound unknown" in decision.reasons[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"overconfidence": 0.3}, "say 0.300 too much"),
        ({"blind_share": 0.2}, "finds nothing in 20.0%"),
        ({"classes": {"person": ClassFigures(0.5, 200)}}, "F1 of person is 0.500"),
        ({"classes": {}}, "F1 of person is 0.000"),
        ({"median_ms": 30.0}, "takes 30.0 ms"),
    ],
)
def test_each_fault_refuses_alone_and_is_named(change: dict[str, object], said: str) -> None:
    student = replace(STUDENT, **change)  # type: ignore[arg-type] # one field at a time
    decision = accept(student, [rivalry(student)], GROUNDS)
    assert not decision.accepted
    assert len(decision.reasons) == 1
    assert said in decision.reasons[0]


def test_scores_that_say_too_little_are_no_fault_where_the_threshold_finds_all() -> None:
    modest = replace(STUDENT, ece=0.3)
    assert accept(modest, [rivalry(modest)], GROUNDS).accepted


def test_a_slower_model_must_surely_be_better() -> None:
    slower = replace(STUDENT, median_ms=GENERAL.median_ms * 1.6)
    assert accept(slower, [rivalry(slower, below=0.02)], GROUNDS).accepted
    assert not accept(slower, [rivalry(slower, below=0.05)], GROUNDS, replace(LIMITS, margin=1.0)).accepted


def test_what_is_neither_better_nor_faster_is_not_worth_a_change() -> None:
    decision = accept(replace(GENERAL, model="again@2"), [rivalry(GENERAL)], GROUNDS)
    assert decision.reasons == ("it is neither better nor faster than general@1",)


def test_too_little_to_judge_by_says_what_is_missing() -> None:
    decision = accept(STUDENT, [rivalry(STUDENT)], Grounds(9, 3, 5, 2))
    assert not decision.accepted
    assert "3 pictures with objects of 12" in decision.reasons[0]
    assert "5 objects to find of 24" in decision.reasons[0]


def test_without_a_rival_there_is_nothing_to_judge_against() -> None:
    with pytest.raises(ValueError, match="at least one other"):
        accept(STUDENT, [], GROUNDS)
