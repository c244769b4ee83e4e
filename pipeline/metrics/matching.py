"""Scores of detections against a reference: precision, recall and F1 at an overlap."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry import BoxArray, iou


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of right, wrong and missed detections."""

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.true_positives + other.true_positives,
            self.false_positives + other.false_positives,
            self.false_negatives + other.false_negatives,
        )

    @property
    def precision(self) -> float:
        """Share of the detections that are right; 1 without detections."""
        found = self.true_positives + self.false_positives
        return self.true_positives / found if found else 1.0

    @property
    def recall(self) -> float:
        """Share of the reference that was found; 1 without a reference."""
        wanted = self.true_positives + self.false_negatives
        return self.true_positives / wanted if wanted else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 1 when both sides are empty."""
        total = 2 * self.true_positives + self.false_positives + self.false_negatives
        return 2 * self.true_positives / total if total else 1.0


def match(found: BoxArray, reference: BoxArray, least_iou: float = 0.5) -> list[tuple[int, int]]:
    """Pairs (found, reference), best overlap first, one to one, with at least ``least_iou``."""
    if not len(found) or not len(reference):
        return []
    overlap = iou(found, reference)
    pairs: list[tuple[int, int]] = []
    used_found: set[int] = set()
    used_reference: set[int] = set()
    for flat in np.argsort(-overlap, axis=None, kind="stable"):
        i, j = divmod(int(flat), len(reference))
        if overlap[i, j] < least_iou:
            break
        if i not in used_found and j not in used_reference:
            pairs.append((i, j))
            used_found.add(i)
            used_reference.add(j)
    return pairs


def score_frame(
    found: BoxArray, reference: BoxArray, ignored: NDArray[np.bool_] | None = None, least_iou: float = 0.5
) -> Score:
    """Score one frame of one class.

    A detection that is matched to an ``ignored`` (m,) reference row is neither right nor wrong, and such a row is
    never missed.
    """
    skip = np.zeros(len(reference), dtype=bool) if ignored is None else ignored
    pairs = match(found, reference, least_iou)
    right = sum(1 for _, j in pairs if not skip[j])
    neutral = len(pairs) - right
    return Score(right, len(found) - right - neutral, int((~skip).sum()) - right)


def total(scores: Iterable[Score]) -> Score:
    """The pooled counts of many frames."""
    return sum(scores, Score())
