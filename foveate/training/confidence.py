"""Scores that mean what they say: of detections with score 0.7, seven in ten are right.

*Source* Platt, "Probabilistic Outputs for Support Vector Machines", 1999, section 2, with its softened targets and the
slope kept positive; Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, section 2, for the error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveate.training.targets import Answers
from pipeline.detections import Detections
from pipeline.geometry import coverage
from pipeline.metrics.matching import match

BINS = 10
LEAST_OF_EACH = 20
"""Right and wrong detections that are needed to say how often a score is right."""
STEPS = 100
LEAST_SLOPE = 0.1
IGNORED_COVERAGE = 0.5


@dataclass(frozen=True, slots=True)
class Platt:
    """A score's logit becomes ``slope`` times it plus ``offset``."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Calibrated probabilities of scores (n,) in (0, 1)."""
        return np.asarray(1 / (1 + np.exp(-(self.slope * logit(score) + self.offset))))


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """Detections that can be judged: ``score`` (n,) and whether each is ``right`` (n,) bool, in order of time."""

    score: NDArray[np.float64]
    right: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.score)

    def part(self, rows: slice) -> "Verdicts":
        """Some of them."""
        return Verdicts(self.score[rows], self.right[rows])


def logit(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(p / (1 - p)), of scores kept away from 0 and 1."""
    kept = np.clip(score, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(kept / (1 - kept)))


def verdicts(found: Sequence[Detections], known: Sequence[Answers], labels: Sequence[str]) -> Verdicts:
    """Judge detections by what is known of their pictures; those in ignored regions are left out."""
    score: list[NDArray[np.float32]] = []
    right: list[NDArray[np.bool_]] = []
    for detections, answers in zip(found, known, strict=True):
        hit = np.zeros(len(detections), bool)
        for class_id, label in enumerate(labels):
            rows = np.flatnonzero(detections.label == label)
            matched = match(detections.xyxy[rows], answers.xyxy[answers.class_id == class_id])
            hit[rows[[row for row, _ in matched]]] = True
        unsure = (coverage(detections.xyxy, answers.ignored) >= IGNORED_COVERAGE).any(axis=1)
        score.append(detections.score[hit | ~unsure])
        right.append(hit[hit | ~unsure])
    nothing = np.empty(0)
    return Verdicts(np.concatenate([nothing, *score]), np.concatenate([nothing.astype(bool), *right]))


def fit_platt(judged: Verdicts) -> Platt:
    """The most likely calibration by Newton's method; none where too few are right or wrong to tell."""
    hits = int(judged.right.sum())
    misses = len(judged) - hits
    if min(hits, misses) < LEAST_OF_EACH:
        return Platt()
    target = np.where(judged.right, (hits + 1) / (hits + 2), 1 / (misses + 2))
    inputs = np.stack([logit(judged.score), np.ones(len(judged))], axis=1)
    theta = np.array([1.0, 0.0])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(inputs @ theta, -30, 30)))
        gradient = inputs.T @ (p - target)
        curvature = (inputs * (p * (1 - p))[:, None]).T @ inputs + 1e-6 * np.eye(2)
        step = np.clip(np.linalg.solve(curvature, gradient), -1, 1)  # no leap where the curve is flat
        theta = theta - step
        if np.abs(step).max() < 1e-8:
            break
    return Platt(max(float(theta[0]), LEAST_SLOPE), float(theta[1]))


def calibration_error(judged: Verdicts, calibration: Platt | None = None) -> float:
    """The expected calibration error over ``BINS`` equal bins, weighted by their number; 0 without detections."""
    if len(judged) == 0:
        return 0.0
    stated = judged.score if calibration is None else calibration(judged.score)
    place = np.minimum((stated * BINS).astype(int), BINS - 1)
    gaps = [abs(float(stated[place == i].sum()) - float(judged.right[place == i].sum())) for i in range(BINS)]
    return sum(gaps) / len(judged)


def error_on_unseen(judged: Verdicts) -> float:
    """The error that calibration leaves on detections that it was not fitted on: fitted on each half, seen on the
    other.
    """
    middle = len(judged) // 2
    halves = judged.part(slice(None, middle)), judged.part(slice(middle, None))
    errors = [calibration_error(other, fit_platt(half)) * len(other) for half, other in (halves, halves[::-1])]
    return sum(errors) / max(len(judged), 1)
