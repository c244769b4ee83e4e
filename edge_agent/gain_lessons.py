"""What a camera learns from its own answers: where the larger model changes something, and where it does not."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.candidates import Survey
from edge_agent.tracking.tracks import LOOKED_AT_COVERAGE
from pipeline.detections import Detections
from pipeline.frames import FrameKey
from pipeline.geometry import BoxArray, coverage
from pipeline.policies.gain import Array, GainModel
from pipeline.policies.offload import OffloadDecision
from pipeline.policies.outcomes import changed_places, drawn

MOST_OPEN = 64
"""Frames whose answers are waited for; the oldest one gives way."""
_MOST_WEIGHT = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    survey: Survey
    chosen: NDArray[np.bool_]


def audited(key: FrameKey, share: float) -> bool:
    """Whether a frame belongs to the share that is drawn to be learned from."""
    return drawn(f"{key.camera}/{key.epoch}/{key.seq}", share)


class GainLessons:
    """The gain model of one camera and the frames it waits to learn from.

    A place that the policy would not have sent is looked at where a frame was drawn for it, or goes whole. It stands
    for those that were not drawn: its lesson counts as one over the share of them that is.
    """

    def __init__(self, model: GainModel, audit_share: float) -> None:
        self.model = model
        self._weight = min(_MOST_WEIGHT, 1.0 / audit_share) if audit_share > 0 else 1.0
        self._open: OrderedDict[FrameKey, _Asked] = OrderedDict()

    def asked(self, key: FrameKey, survey: Survey, decision: OffloadDecision) -> None:
        """A second look at a frame was asked for."""
        chosen = {place.box for place in decision.places} - {place.box for place in decision.drawn}
        is_chosen = np.array([tuple(box) in chosen for box in survey.places.xyxy.tolist()], bool)
        self._open[key] = _Asked(survey, is_chosen)
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def answered(
        self, key: FrameKey, before: Detections, after: Detections, looked_at: BoxArray, *, whole: bool
    ) -> None:
        """Learn from an answer: what was, and what is now published for its frame. ``looked_at`` (m, 4) in frame
        pixels is where the larger model looked, ``whole`` whether everywhere.
        """
        asked = self._open.pop(key, None)
        if asked is None:
            return
        places = asked.survey.places.xyxy
        changed, unseen = changed_places(places, before, after)
        seen = coverage(places, looked_at).max(axis=1, initial=0.0) >= LOOKED_AT_COVERAGE
        weight: Array = np.where(asked.chosen, 1.0, self._weight)
        self.model = self.model.learn(asked.survey.features[seen], changed[seen], weight[seen])
        if whole:
            self.model = self.model.learn_unseen(unseen)
