import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.training.confidence import (
    Platt,
    Verdicts,
    calibration_error,
    error_on_unseen,
    fit_platt,
    logit,
    verdicts,
)
from foveate.training.targets import Answers
from pipeline.detections import Detections


def stated(slope: float, offset: float, count: int = 20_000, seed: int = 0) -> Verdicts:
    """Verdicts on a model that states other probabilities than the true ones, by a known amount."""
    rng = np.random.default_rng(seed)
    true = rng.uniform(0.02, 0.98, count)
    return Verdicts(1 / (1 + np.exp(-(logit(true) - offset) / slope)), rng.random(count) < true)


@settings(deadline=None, max_examples=20)
@given(st.floats(0.4, 3.0), st.floats(-1.5, 1.5))
def test_calibration_finds_what_was_wrong_with_the_scores(slope: float, offset: float) -> None:
    found = fit_platt(stated(slope, offset))
    assert found.slope == pytest.approx(slope, rel=0.25)
    assert found.offset == pytest.approx(offset, abs=0.3)


def test_calibration_lowers_the_error_on_detections_that_it_was_not_fitted_on() -> None:
    seen = stated(0.5, 1.0)
    assert error_on_unseen(seen) < 0.03 < 0.1 < calibration_error(seen)


def test_scores_that_mean_what_they_say_have_hardly_any_error() -> None:
    assert calibration_error(stated(1.0, 0.0)) < 0.03
    assert calibration_error(Verdicts(np.array([0.9] * 10), np.zeros(10, bool))) == pytest.approx(0.9)


def test_too_few_right_or_wrong_detections_leave_scores_as_they_are() -> None:
    assert fit_platt(Verdicts(np.full(100, 0.9), np.ones(100, bool))) == Platt()
    assert calibration_error(Verdicts(np.empty(0), np.empty(0, bool))) == 0


def test_order_of_scores_is_kept_even_where_they_say_the_opposite_of_the_truth() -> None:
    rng = np.random.default_rng(1)
    score = rng.uniform(0.05, 0.95, 400)
    calibration = fit_platt(Verdicts(score, rng.random(400) > score))
    assert (np.diff(calibration(np.sort(score))) >= 0).all()


def test_a_detection_is_judged_by_what_is_known_and_not_where_nobody_knows() -> None:
    found = Detections.of(
        [[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [0, 20, 10, 30]],
        [0.9, 0.8, 0.7, 0.6],
        ["person", "person", "person", "bicycle"],
    )
    known = Answers(
        np.array([[0, 0, 10, 11], [0, 20, 10, 30]], np.float32),
        np.array([0, 0]),
        np.array([[39, 0, 51, 12]], np.float32),
    )
    judged = verdicts([found], [known], ["person", "bicycle"])
    assert judged.score.tolist() == pytest.approx([0.9, 0.8, 0.6])
    assert judged.right.tolist() == [True, False, False]
