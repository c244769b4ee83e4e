"""Join the edge's boxes with the cloud's answer. Pure.

Where the cloud has looked, it decides: its boxes replace the edge's, and an edge box that it did not find again is
kept for the tracker as denied, so that the same mistake is not published on the next frames. Elsewhere the edge's
boxes stand.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge_agent.tracking.tracks import LOOKED_AT_COVERAGE, Observations, Verdict
from pipeline.detections import Detections
from pipeline.geometry import BoxArray, area, coverage, iou, nms

_CUT_PX = 4.0
"""A box that ends within this of its crop's border may be cut by it."""
_BACKED_IOU = 0.5


def merge_crops(
    parts: Sequence[Detections], regions: BoxArray, iou_threshold: float = 0.6, inside: float = 0.8
) -> Detections:
    """One list from the detections of overlapping crops with their frame regions (n, 4), all in frame pixels.

    A piece of an object, cut by the border of its crop, lies mostly inside the larger box that another crop shows, and
    goes. The same object seen whole in two crops is caught by class-wise non-maximum suppression.
    """
    found = Detections.concat(parts)
    if len(found) < 2:
        return found
    crop = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    cut = (np.abs(found.xyxy - regions[crop]) <= _CUT_PX).any(axis=1)
    sizes = area(found.xyxy)
    larger = (sizes[:, None] < sizes) & (crop[:, None] != crop) & (found.label[:, None] == found.label)
    piece = cut & (larger & (coverage(found.xyxy, found.xyxy) >= inside)).any(axis=1)
    if piece.any():
        found = found.select(~piece)
    # Boxes of different classes are moved apart, so that one pass serves all classes.
    group = np.unique(found.label, return_inverse=True)[1]
    apart = group[:, None] * (found.xyxy.max() - found.xyxy.min() + 1)
    return found.select(nms((found.xyxy + apart).astype(np.float32), found.score, iou_threshold))


def fuse(
    edge: Detections, cloud: Detections, looked_at: BoxArray, sure_score: float = 0.5, same_iou: float = 0.3
) -> Observations:
    """Observations of a frame from the edge's and the cloud's detections, both in frame pixels.

    ``looked_at`` (n, 4) are the frame regions that the cloud saw. An edge box counts as looked at when nearly
    all of it lies in one of them. The cloud's detections count by themselves from ``sure_score`` on. A weaker one adds
    nothing, but an edge box in the same place stands with it, where their mean score reaches ``sure_score``: two models
    are seldom calibrated alike, and what one sees clearly and the other faintly is there.
    """
    sure = cloud.score >= sure_score
    faint, cloud = cloud.select(~sure), cloud.select(sure)
    if not len(edge):
        return Observations(cloud, np.full(len(cloud), Verdict.CONFIRMED, np.int8), looked_at)
    seen = coverage(edge.xyxy, looked_at).max(axis=1, initial=0.0) >= LOOKED_AT_COVERAGE
    overlap = iou(edge.xyxy, cloud.xyxy) * (edge.label[:, None] == cloud.label)
    rest = overlap.max(axis=1, initial=0.0) < same_iou
    backed = _backed(edge, faint, sure_score)
    verdict = np.full(len(cloud) + int(rest.sum()), Verdict.CONFIRMED, np.int8)
    verdict[len(cloud) :] = np.where(backed, Verdict.CONFIRMED, np.where(seen, Verdict.DENIED, Verdict.UNSEEN))[rest]
    return Observations(Detections.concat([cloud, edge.select(rest)]), verdict, looked_at)


def _backed(edge: Detections, faint: Detections, sure_score: float) -> NDArray[np.bool_]:
    """Which of the edge's boxes (n,) the cloud sees faintly in the same place."""
    same = (iou(edge.xyxy, faint.xyxy) >= _BACKED_IOU) & (edge.label[:, None] == faint.label)
    enough = (edge.score[:, None] + faint.score) / 2 >= sure_score
    return np.asarray((same & enough).any(axis=1))
