"""Join the edge's boxes with the cloud's answer. Pure.

Where the cloud has looked, it decides: its boxes replace the edge's, and an edge box that it did not find again is
kept for the tracker as denied, so that the same mistake is not published on the next frames. Elsewhere the edge's
boxes stand.
"""

import numpy as np

from edge_agent.tracking.tracks import LOOKED_AT_COVERAGE, Observations, Verdict
from pipeline.detections import Detections
from pipeline.geometry import BoxArray, area, coverage, iou, nms


def merge_crops(parts: list[Detections], iou_threshold: float = 0.6, inside: float = 0.8) -> Detections:
    """One list from the detections of overlapping crops, all in frame pixels.

    The same object seen whole in two crops is caught by class-wise non-maximum suppression; a piece of it, cut by the
    border of one crop, lies mostly inside the whole box and is smaller, and goes too.
    """
    found = Detections.concat(parts)
    if len(found) < 2:
        return found
    # Boxes of different classes are moved apart, so that one pass serves all classes.
    crop = np.concatenate([np.full(len(part), i) for i, part in enumerate(parts)])
    # Boxes of different classes are moved apart, so that one pass serves all classes.
    _, group = np.unique(found.label, return_inverse=True)
    shifted = (found.xyxy + (group.astype(np.float32) * 1e5)[:, None]).astype(np.float32)
    kept = nms(shifted, found.score, iou_threshold)
    found, crop = found.select(kept), crop[kept]
    within = coverage(found.xyxy, found.xyxy) >= inside
    other = (crop[:, None] != crop[None, :]) & (found.label[:, None] == found.label[None, :])
    sizes = area(found.xyxy)
    piece = (within & other & (sizes[:, None] < sizes[None, :])).any(axis=1)
    return found.select(~piece)


def fuse(edge: Detections, cloud: Detections, looked_at: BoxArray, same_iou: float = 0.3) -> Observations:
    """Observations of a frame from the edge's and the cloud's detections, both in frame pixels.

    ``looked_at`` (n, 4) are the frame regions that the cloud saw. An edge box counts as looked at when nearly
    all of it lies in one of them.
    """
    if not len(edge):
        return Observations(cloud, np.full(len(cloud), Verdict.CONFIRMED, np.int8), looked_at)
    seen = coverage(edge.xyxy, looked_at).max(axis=1, initial=0.0) >= LOOKED_AT_COVERAGE
    overlap = np.where(edge.label[:, None] == cloud.label[None, :], iou(edge.xyxy, cloud.xyxy), 0.0)
    replaced = overlap.max(axis=1, initial=0.0) >= same_iou
    denied = seen & ~replaced
    standing = ~seen & ~replaced
    rest = denied | standing
    verdict = np.concatenate(
        [
            np.full(len(cloud), Verdict.CONFIRMED, np.int8),
            np.where(denied[rest], np.int8(Verdict.DENIED), np.int8(Verdict.UNSEEN)),
        ]
    ).astype(np.int8)
    return Observations(Detections.concat([cloud, edge.select(rest)]), verdict, looked_at)
