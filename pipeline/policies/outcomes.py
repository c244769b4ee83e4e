"""What an answer of the larger model changed, and which frames are drawn to be learned from."""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from pipeline.detections import Detections
from pipeline.geometry import BoxArray, coverage, iou
from pipeline.metrics.matching import Score, match, score_frame, total

SAME_IOU = 0.5
"""A box of the same label that overlaps less was moved."""
_AT_PLACE_IOU = 0.1


def changed_places(places: BoxArray, before: Detections, after: Detections) -> tuple[NDArray[np.bool_], int]:
    """Which places (n, 4) an answer has changed, (n,), and how many changes were at none of them.

    A box that was added, removed, relabelled or moved is one change at the place that it overlaps most.
    """
    gone, new = np.ones(len(before), bool), np.ones(len(after), bool)
    for label in np.intersect1d(before.label, after.label):
        mine, theirs = np.flatnonzero(before.label == label), np.flatnonzero(after.label == label)
        for i, j in match(before.xyxy[mine], after.xyxy[theirs], SAME_IOU):
            gone[mine[i]] = new[theirs[j]] = False
    boxes = np.concatenate([before.xyxy[gone], after.xyxy[new]])
    changed = np.zeros(len(places), bool)
    if not len(places):
        return changed, len(boxes)
    overlap = iou(boxes, places)
    nearest, close = overlap.argmax(axis=1), overlap.max(axis=1) >= _AT_PLACE_IOU
    changed[nearest[close]] = True
    return changed, int((~close).sum())


def agreement_at(places: BoxArray, found: Detections, reference: Detections) -> Score:
    """Right, wrong and missed boxes at some places (n, 4) against another look, class by class."""
    found, reference = (d.select(coverage(d.xyxy, places).max(axis=1, initial=0.0) >= 0.5) for d in (found, reference))
    return total(
        score_frame(found.xyxy[found.label == label], reference.xyxy[reference.label == label], least_iou=SAME_IOU)
        for label in np.union1d(found.label, reference.label)
    )


def drawn(name: str, share: float) -> bool:
    """Whether what is called ``name`` belongs to a ``share`` in [0, 1] that is drawn by a hash of the names."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") < share * 2**64
