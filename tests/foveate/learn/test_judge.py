"""Judging a trained model on lessons it has never seen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.learn import scores
from foveate.learn.attempt import better_build
from foveate.learn.judge import Judge, Judgement
from pipeline.detections import Detections
from pipeline.timing import ManualClock
from tests.support.lessons import Pupil, lesson, scene

LESSONS = scene(120)


def judge(student: Pupil, general: Pupil, student_s: float = 0.001) -> Judgement:
    """The judgement of a student whose look takes so long, where the general model's takes 6 ms."""
    clock = ManualClock()
    for pupil, takes_s in ((student, student_s), (general, 0.006)):
        pupil.clock, pupil.takes_s = clock, takes_s
    return Judge(LESSONS, ["person"], 0.4, clock).judge([student], [general])[0]


def test_a_model_that_finds_more_than_the_general_one_is_accepted() -> None:
    verdict = judge(Pupil("student", LESSONS, 0.97), Pupil("general", LESSONS, 0.75, seed=2))
    assert verdict.acceptance.accepted, verdict.acceptance.reasons
    assert verdict.trained.f1 > verdict.rivals[0].rival.f1 + 0.05
    assert (verdict.trained.median_ms, verdict.rivals[0].rival.median_ms) == pytest.approx((1.0, 6.0))


def test_a_model_as_good_is_accepted_where_it_is_faster_alone() -> None:
    student, general = Pupil("student", LESSONS, 0.9, seed=7), Pupil("general", LESSONS, 0.9, seed=7)
    assert judge(student, general).acceptance.accepted
    verdict = judge(student, general, student_s=0.006)
    assert verdict.acceptance.reasons == ("it is neither better nor faster than general@1",)


@settings(max_examples=12, deadline=None)
@given(good=st.floats(0.5, 1.0), loss=st.floats(0.08, 0.5), seed=st.integers(0, 10_000))
def test_a_model_that_finds_less_is_never_accepted(good: float, loss: float, seed: int) -> None:
    general = Pupil("general", LESSONS, good, seed=seed)
    student = Pupil("student", LESSONS, good - loss, seed=seed)  # misses all that the other one misses, and more
    verdict = judge(student, general)
    assert not verdict.acceptance.accepted
    assert verdict.acceptance.reasons


def test_a_model_that_invents_people_in_empty_pictures_is_refused() -> None:
    student = Pupil("student", LESSONS, 0.95, invents=0.6)
    verdict = judge(student, Pupil("general", LESSONS, 0.95, seed=2))
    assert not verdict.acceptance.accepted


def test_too_few_lessons_refuse_every_model() -> None:
    few = LESSONS[:20]
    judge_of_few = Judge(few, ["person"], 0.4, ManualClock())
    verdict = judge_of_few.judge([Pupil("s", few, 1.0)], [Pupil("g", few, 0.5)])[0]
    assert not verdict.acceptance.accepted
    assert "cannot judge it" in verdict.acceptance.reasons[0]


def test_what_lies_in_doubt_is_neither_right_nor_wrong() -> None:
    one = lesson(0, [(10, 10, 30, 50)], ignored=[(60, 10, 90, 50)])
    found = Detections.of([[10, 10, 30, 50], [62, 12, 88, 48], [100, 60, 120, 90]], [0.9, 0.8, 0.7], ["person"] * 3)
    matched = scores.matched(found, one, ["person"])
    assert scores.counts([matched], 0.5).tolist() == [[1, 1, 0]]
    assert scores.counts([matched], 0.85).tolist() == [[1, 0, 0]]
    assert scores.counts([matched], 0.95).tolist() == [[0, 0, 1]]


def test_other_classes_count_for_nothing() -> None:
    found = Detections.of([[10, 10, 30, 50], [10, 10, 30, 50]], [0.9, 0.8], ["dog", "person"])
    matched = scores.matched(found, lesson(0, [(10, 10, 30, 50)]), ["person"])
    assert scores.counts([matched], 0.5).tolist() == [[1, 0, 0]]


def test_two_boxes_on_one_object_are_one_right_and_one_wrong() -> None:
    found = Detections.of([[10, 10, 30, 50], [11, 10, 30, 50]], [0.6, 0.9], ["person"] * 2)
    matched = scores.matched(found, lesson(0, [(10, 10, 30, 50)]), ["person"])
    assert matched.right.tolist() == [False, True]


def test_scores_that_tell_the_truth_have_no_calibration_error() -> None:
    boxes = [(20 * i, 10, 20 * i + 15, 50) for i in range(5)]
    shifted = [
        (x1, y1 + (30 if i == 0 else 0), x2, y2 + (30 if i == 0 else 0)) for i, (x1, y1, x2, y2) in enumerate(boxes)
    ]
    found = Detections.of(shifted, [0.8] * 5, ["person"] * 5)  # four of five are right
    honest = scores.matched(found, lesson(0, boxes), ["person"])
    assert scores.calibration_error([honest]) == pytest.approx(0.0, abs=1e-6)
    boastful = scores.matched(Detections.of(shifted, [1.0] * 5, ["person"] * 5), lesson(0, boxes), ["person"])
    assert scores.calibration_error([boastful]) == pytest.approx(0.2, abs=1e-6)
    assert scores.overconfidence([boastful]) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize(
    ("twin_finds", "twin_s", "student_finds", "taken"),
    [
        (0.95, 0.0005, 0.95, "8 bits"),
        (0.95, 0.00095, 0.95, "float"),  # hardly faster
        (0.90, 0.0005, 0.95, "float"),  # sees less
        (0.95, 0.002, 0.50, "8 bits"),  # alone is accepted
        (0.50, 0.0005, 0.50, "float"),  # none is: the float build tells why
    ],
)
def test_the_8_bit_build_is_taken_where_it_wins(
    twin_finds: float, twin_s: float, student_finds: float, taken: str
) -> None:
    clock = ManualClock()
    student, twin = Pupil("s", LESSONS, student_finds, seed=3), Pupil("t", LESSONS, twin_finds, seed=3)
    general = Pupil("g", LESSONS, 0.8, seed=4)
    for pupil, takes_s in ((student, 0.001), (twin, twin_s), (general, 0.006)):
        pupil.clock, pupil.takes_s = clock, takes_s
    judged = Judge(LESSONS, ["person"], 0.4, clock).judge([student, twin], [general])
    assert better_build(dict(zip(("float", "8 bits"), judged, strict=True)))[0] == taken
