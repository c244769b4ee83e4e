"""What a decode function takes and gives, and the steps that are the same after every head."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.detections import Detections
from pipeline.detectors.contract import HeightWidth, OutputContract
from pipeline.detectors.preprocess import Placement
from pipeline.geometry import BoxArray, nms

MAX_CANDIDATES = 1000
"""Best candidates that reach non-maximum suppression, whose cost grows with the square of their number."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Raw boxes of one picture above the threshold: (n, 4) float32 input pixels, scores (n,), classes (n,).

    ``suspect`` counts rows left out because a value was NaN, infinite or no probability.
    """

    xyxy: BoxArray
    score: NDArray[np.float32]
    class_id: NDArray[np.intp]
    suspect: int


@dataclass(frozen=True, slots=True)
class Head:
    """A kind of output.

    ``shapes`` gives the shape of each output for one picture (without the batch) at an input of (height, width);
    ``decode`` turns the outputs of one picture (same order) into candidates of at least ``min_score``.
    """

    shapes: Callable[[OutputContract, HeightWidth], Sequence[tuple[int, ...]]]
    decode: Callable[[Sequence[NDArray[Any]], OutputContract, HeightWidth, float], Candidates]


def finish(
    candidates: Candidates, placement: Placement, contract: OutputContract, labels: NDArray[np.str_]
) -> Detections:
    """Detections in picture pixels, best first: mapped back, cut to the picture, suppressed per class, limited."""
    score = candidates.score
    best = np.argsort(-score, kind="stable")[:MAX_CANDIDATES]
    boxes = placement.to_picture(candidates.xyxy[best])
    inside = ((boxes[:, 2:] - boxes[:, :2]) > 0).all(axis=1)
    best, boxes = best[inside], boxes[inside]
    if len(best) == 0:
        return Detections.none()
    class_id, score = candidates.class_id[best], score[best]
    # Boxes of different classes are moved apart, so one pass suppresses within each class alone.
    reach = float(max(placement.picture.width, placement.picture.height)) + 1.0
    apart = boxes + (class_id * reach).astype(np.float32)[:, None]
    kept = nms(apart, score, contract.nms_iou)[: contract.max_detections]
    return Detections.of(boxes[kept], score[kept], labels[class_id[kept]])
