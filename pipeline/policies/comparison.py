"""How right a look was on one frame that the larger model saw as a whole. Pure."""

from dataclasses import dataclass

import numpy as np

from pipeline.detections import Detections
from pipeline.metrics.matching import match, score_frame, total

SAME_IOU = 0.5


@dataclass(frozen=True, slots=True)
class FrameScore:
    """One model's look at a frame, held against the larger model's.

    ``f1`` in [0, 1] of its published boxes, 1 where there is nothing and nothing was found. ``missed_all``: it shows
    nothing where the larger model is sure of something. ``brier`` is the mean squared difference of its scores from
    what came true (Brier 1950), over all boxes of its look that the larger model settles; None where there are none.
    """

    f1: float
    missed_all: bool
    brier: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both looks at one frame; ``objects`` is how many the larger model is sure of."""

    candidate: FrameScore
    current: FrameScore
    objects: int


def frame_score(look: Detections, teacher: Detections, publish_score: float, sure_score: float) -> FrameScore:
    """Score a look by the larger model's answer to the same frame, class by class.

    What it is not sure of counts for nothing: neither found nor missed, neither right nor wrong.
    """
    published = look.select(look.score >= publish_score)
    counts = total(
        score_frame(
            published.xyxy[published.label == label],
            teacher.xyxy[teacher.label == label],
            teacher.score[teacher.label == label] < sure_score,
            SAME_IOU,
        )
        for label in np.union1d(published.label, teacher.label)
    )
    empty = not len(published) and bool((teacher.score >= sure_score).any())
    return FrameScore(counts.f1, empty, _brier(look, teacher, sure_score))


def compare(
    candidate: Detections, current: Detections, teacher: Detections, publish_score: float, sure_score: float
) -> Comparison:
    """Hold both looks at a frame against the larger model's answer."""
    return Comparison(
        frame_score(candidate, teacher, publish_score, sure_score),
        frame_score(current, teacher, publish_score, sure_score),
        int((teacher.score >= sure_score).sum()),
    )


def _brier(look: Detections, teacher: Detections, sure_score: float) -> float | None:
    """The look's squared errors of probability; a box at a place that the larger model is unsure of is left out."""
    errors: list[float] = []
    for label in np.unique(look.label):
        mine, theirs = look.select(look.label == label), teacher.select(teacher.label == label)
        truth = dict(match(mine.xyxy, theirs.xyxy, SAME_IOU))
        for row, score in enumerate(mine.score.tolist()):
            if row not in truth:
                errors.append(score**2)
            elif theirs.score[truth[row]] >= sure_score:
                errors.append((1.0 - score) ** 2)
    return sum(errors) / len(errors) if errors else None
