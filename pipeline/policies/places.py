"""The places of one analysed frame that a second look could be about, and the features that predict its worth."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry import BoxArray, Size, iou

Array = NDArray[np.float64]


class PlaceKind(IntEnum):
    """What is known of a place."""

    UNSEEN = 0  # a box of the small model on which the larger one has no say (yet, or any more)
    CONFIRMED = 1  # a box of a track that the larger model has confirmed
    DENIED = 2  # a box of a track that it has denied
    MISSED = 3  # a track that the small model did not find this time
    MOTION = 4  # something moves where nothing was detected


_KINDS = tuple(np.int8(kind) for kind in PlaceKind)
"""As numpy numbers, which compare with arrays several times faster than members of an enumeration."""
_CONFIRMED, _DENIED, _MISSED = _KINDS[1:4]
_EACH_KIND = np.array(_KINDS)[:, None]
_KNOTS = np.array([[0.3], [0.4], [0.5], [0.6]])

FEATURES = (
    "bias",
    *(kind.name.lower() for kind in PlaceKind),
    "published",
    *("score", "score_over_30", "score_over_40", "score_over_50", "score_over_60", "score_change"),
    *("height", "aspect", "crowding", "at_border", "boxes"),
    *("since_verdict", "age", "hits", "speed", "misfit", "untracked"),
    *("confirmed_score", "denied_score", "unseen_for", "missed_published"),
)
PRIOR_WEIGHTS = (
    *(-2.6, -0.2, 0.1, -2.9, 1.1, -0.7),
    1.2,
    *(1.9, 1.3, -2.0, -1.6, 0.3, -1.4),
    *(0.4, 0.1, 0.5, -0.5, 0.2),
    *(0.7, 0.2, -1.1, -0.4, 1.7, -2.0),
    *(-2.9, 5.3, -0.4, -0.4),
)
"""Weights of the logistic regression that a camera starts from: what both delivered models disagree on in three scenes
(a campus road, an indoor corner, bottles on a table), rounded.
"""

_BORDER_PX = 4.0
_MOST_VERDICT_S, _MOST_AGE_S, _MOST_SPEED = 2.0, 3.0, 2.0
_USUAL_HEIGHT = 0.15
"""Height of a usual object as a share of the frame's."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """n places of one frame as a struct of arrays; every array has a row per place.

    ``xyxy`` (n, 4) frame pixels, ``kind`` of ``PlaceKind``, ``published`` whether a box is published there without
    another look, ``score`` the small model's, of a missed track its last, 0 for motion, ``score_change`` since the
    track's last one. Of the track, zeros without one: ``since_verdict_s`` (inf: never), ``age_s``, ``hits``, ``speed``
    in its own heights per second, ``misfit`` one minus the overlap of its box with the measured one,
    ``unseen_for_s`` since it was observed; ``tracked`` is whether there is one.
    """

    xyxy: BoxArray
    kind: NDArray[np.int8]
    published: NDArray[np.bool_]
    score: Array
    score_change: Array
    since_verdict_s: Array
    age_s: Array
    hits: Array
    speed: Array
    misfit: Array
    unseen_for_s: Array
    tracked: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.xyxy)

    @property
    def least_published_score(self) -> float | None:
        """The lowest score of the small model's boxes that are published without another look; None without one."""
        scores = self.score[self.published & (self.kind <= _DENIED)]
        return float(scores.min()) if len(scores) else None

    def features(self, size: Size) -> Array:
        """The features (n, d) in a frame of ``size``, in the order of ``FEATURES``, each about between 0 and 1."""
        n = len(self)
        if not n:
            return np.empty((0, len(FEATURES)))
        boxes = self.xyxy.astype(np.float64)
        width, height = np.maximum(boxes[:, 2:] - boxes[:, :2], 1.0).T
        overlap = iou(self.xyxy, self.xyxy)
        np.fill_diagonal(overlap, 0.0)
        limit = np.array([size.width, size.height]) - _BORDER_PX
        border = (boxes[:, :2] < _BORDER_PX).any(axis=1) | (boxes[:, 2:] > limit).any(axis=1)
        columns = (
            1.0,
            *(self.kind == _EACH_KIND),
            self.published,
            self.score,
            *(3 * np.maximum(self.score - _KNOTS, 0.0)),
            np.minimum(np.abs(self.score_change), 1.0),
            np.minimum(np.maximum(np.log(height / (_USUAL_HEIGHT * size.height)), -3.0), 3.0),
            np.minimum(np.maximum(np.log(width / height), -3.0), 3.0),
            overlap.max(axis=1, initial=0.0),
            border,
            min(int(np.count_nonzero(self.kind <= _DENIED)), 40) / 10,
            np.minimum(self.since_verdict_s, _MOST_VERDICT_S) / _MOST_VERDICT_S,
            np.minimum(self.age_s, _MOST_AGE_S) / _MOST_AGE_S,
            np.minimum(np.log1p(self.hits), 3.0) / 3,
            np.minimum(self.speed, _MOST_SPEED),
            self.misfit,
            ~self.tracked,
            np.where(self.kind == _CONFIRMED, self.score, 0.0),
            np.where(self.kind == _DENIED, self.score, 0.0),
            self.unseen_for_s,
            (self.kind == _MISSED) & self.published,
        )
        out = np.empty((len(columns), n))
        for row, column in zip(out, columns, strict=True):
            row[:] = column
        return out.T
