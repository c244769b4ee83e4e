"""Scores of a model's detections against lessons, whose regions of doubt count neither way. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.lessons.lesson import Lesson
from foveate.bench.bootstrap import Counts, Interval, f1, paired_interval
from pipeline.detections import Detections
from pipeline.geometry import coverage
from pipeline.metrics.matching import match
from pipeline.policies.acceptance import ClassFigures, Difference

MATCH_IOU = 0.5
DOUBTFUL_COVERAGE = 0.5
"""A detection that lies so far inside a region of doubt, and matches no known object, is neither right nor wrong."""
THRESHOLDS = tuple(float(t) for t in np.arange(0.2, 0.801, 0.02))
CALIBRATION_BINS = 10
MOST_BLOCKS = 30
LEAST_PER_BLOCK = 3


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """One model's detections on one lesson: ``score`` (n,), ``label`` (n,) and whether each is ``right`` (n,); those in
    doubt are left out. ``objects`` are the labels (m,) of what there was to find.
    """

    score: NDArray[np.float32]
    label: NDArray[np.str_]
    right: NDArray[np.bool_]
    objects: NDArray[np.str_]


def matched(found: Detections, lesson: Lesson, labels: Sequence[str]) -> Matched:
    """Match detections to what a lesson knows, class by class, best score first; other classes than ``labels`` are
    left out of both.

    Matching by score makes the counts at any threshold those of matching what lies above it alone.
    """
    found = found.select(np.isin(found.label, labels))
    known = lesson.known.select(np.isin(lesson.known.label, labels))
    right = np.zeros(len(found), bool)
    for label in np.union1d(found.label, known.label):
        mine, its = np.flatnonzero(found.label == label), np.flatnonzero(known.label == label)
        free = list(its)
        for row in mine[np.argsort(-found.score[mine], kind="stable")]:
            pairs = match(found.xyxy[row : row + 1], known.xyxy[free], MATCH_IOU)
            if pairs:
                right[row] = True
                del free[pairs[0][1]]
    doubtful = np.zeros(len(found), bool)
    if len(lesson.ignored) and len(found):
        doubtful = ~right & (coverage(found.xyxy, lesson.ignored).max(axis=1) >= DOUBTFUL_COVERAGE)
    kept = ~doubtful
    return Matched(found.score[kept], found.label[kept], right[kept], np.asarray(known.label))


def counts(frames: Sequence[Matched], threshold: float, label: str | None = None) -> Counts:
    """Right, wrong and missed (n, 3) of each frame at a score threshold; of one class alone where it is named."""
    rows = np.zeros((len(frames), 3))
    for row, frame in zip(rows, frames, strict=True):
        sure = frame.score >= threshold
        wanted = len(frame.objects)
        if label is not None:
            sure &= frame.label == label
            wanted = int((frame.objects == label).sum())
        right = int((sure & frame.right).sum())
        row[:] = right, int(sure.sum()) - right, wanted - right
    return rows


def pooled_f1(frames: Sequence[Matched], threshold: float, label: str | None = None) -> float:
    """F1 over all frames together."""
    return float(f1(counts(frames, threshold, label).sum(axis=0)))


def best_threshold(frames: Sequence[Matched]) -> float:
    """The score threshold of the best pooled F1; the lowest such."""
    return max(THRESHOLDS, key=lambda threshold: pooled_f1(frames, threshold))


def classes(frames: Sequence[Matched], threshold: float) -> dict[str, ClassFigures]:
    """F1 and objects to find of every class that there was to find."""
    objects = np.concatenate([frame.objects for frame in frames]) if frames else np.empty(0, np.str_)
    names, numbers = np.unique(objects, return_counts=True)
    return {
        str(name): ClassFigures(pooled_f1(frames, threshold, str(name)), int(number))
        for name, number in zip(names, numbers, strict=True)
    }


def blind_share(frames: Sequence[Matched], threshold: float) -> float:
    """Of the pictures with objects, the share without one detection; 0 where no picture has any."""
    seeing = [bool((frame.score >= threshold).any()) for frame in frames if len(frame.objects)]
    return 1 - sum(seeing) / len(seeing) if seeing else 0.0


def calibration_error(frames: Sequence[Matched]) -> float:
    """Expected calibration error of the scores over ten bins of equal width (Guo et al., ICML 2017, equation 3)."""
    return float(np.abs(_gaps(frames)).sum())


def overconfidence(frames: Sequence[Matched]) -> float:
    """The part of the calibration error from the bins whose scores say more than is right."""
    return float(np.maximum(_gaps(frames), 0.0).sum())


def _gaps(frames: Sequence[Matched]) -> NDArray[np.float64]:
    """By how much the scores of each bin say too much, weighted by its share of the detections."""
    score = np.concatenate([frame.score for frame in frames]) if frames else np.empty(0, np.float32)
    right = np.concatenate([frame.right for frame in frames]) if frames else np.empty(0, bool)
    bins = np.minimum((score * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    too_much = score.astype(np.float64) - right
    return np.bincount(bins, too_much, CALIBRATION_BINS) / max(1, len(score))


def block_count(pictures: int) -> int:
    """Into how many blocks of time so many judged pictures are cut."""
    return min(MOST_BLOCKS, pictures // LEAST_PER_BLOCK)


def difference(mine: Counts, its: Counts) -> Difference:
    """F1 of one model less another's from counts (n, 3) of the same frames in order of time, with its lower bound by a
    paired bootstrap over blocks of consecutive frames.
    """
    blocks = block_count(len(mine))
    if blocks == 0:
        return Difference(float(f1(mine.sum(axis=0)) - f1(its.sum(axis=0))), float("nan"))
    cut = [np.array_split(rows, blocks) for rows in (mine, its)]
    first, second = ({i: block.sum(axis=0) for i, block in enumerate(one)} for one in cut)
    interval: Interval = paired_interval(first, second)
    return Difference(interval.value, interval.low)
