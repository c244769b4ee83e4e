"""Scores of detections on a clip: against ground truth, or against another model's detections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.detections import Detections
from pipeline.errors import ConfigError
from pipeline.geometry import BoxArray
from pipeline.metrics.matching import Score, score_frame, total

MATCH_IOU = 0.5
THRESHOLDS = np.arange(0.2, 0.701, 0.02)


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """True boxes of one frame: (n, 4) xyxy frame pixels, their labels (n,), and which are to be ignored (n,) bool."""

    xyxy: BoxArray
    label: NDArray[np.str_]
    ignored: NDArray[np.bool_]


def read_mot(path: Path, label: str) -> dict[int, Truth]:
    """Ground truth in MOT format by frame number from 1; rows with conf 0 are ignored ones. Raises ConfigError."""
    try:
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()] or ["no rows"]
        rows = np.loadtxt(lines, delimiter=",", ndmin=2, usecols=range(7))
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path} as MOT ground truth ({error}): name another file with --gt.") from error
    truth: dict[int, Truth] = {}
    for number in np.unique(rows[:, 0].astype(int)):
        of_frame = rows[rows[:, 0] == number]
        xyxy = np.concatenate([of_frame[:, 2:4], of_frame[:, 2:4] + of_frame[:, 4:6]], axis=1).astype(np.float32)
        truth[int(number)] = Truth(xyxy, np.array([label] * len(xyxy), dtype=np.str_), of_frame[:, 6] == 0)
    return truth


def as_truth(detections: Detections, least_score: float) -> Truth:
    """One model's detections taken for true, to measure another's agreement with it."""
    sure = detections.select(detections.score >= least_score)
    return Truth(sure.xyxy, sure.label, np.zeros(len(sure), dtype=bool))


def score(found: Detections, truth: Truth) -> Score:
    """Right, wrong and missed of one frame, class by class."""
    labels = np.union1d(found.label, truth.label)
    return total(
        score_frame(
            found.xyxy[found.label == label],
            truth.xyxy[truth.label == label],
            truth.ignored[truth.label == label],
            MATCH_IOU,
        )
        for label in labels
    )


def best_f1(found: Mapping[int, Detections], truth: Mapping[int, Truth], labels: Sequence[str] | None) -> float:
    """The best F1 over score thresholds, all frames of ``found`` together; ``labels`` limits what counts.

    0 where nothing is right at any threshold.
    """
    nothing = Truth(np.empty((0, 4), np.float32), np.empty(0, np.str_), np.empty(0, bool))
    best = 0.0
    for threshold in THRESHOLDS:
        scores = []
        for number, detections in found.items():
            sure = detections.score >= threshold
            if labels is not None:
                sure &= np.isin(detections.label, labels)
            scores.append(score(detections.select(sure), truth.get(number, nothing)))
        pooled = total(scores)
        if pooled.true_positives:
            best = max(best, pooled.f1)
    return best
