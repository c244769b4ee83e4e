"""The NanoDet head: class scores and box distance distributions per grid cell.

Outputs in order: one score tensor (cells, classes) per stride, sigmoid already applied; then one distance tensor
(cells, 4 * bins) per stride, logits of the distances left, top, right, bottom in units of the stride.

*Source* Li et al., "Generalized Focal Loss", NeurIPS 2020, for the distribution; RangiLyu/nanodet for the grid.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.detectors.contract import HeightWidth, OutputContract
from pipeline.detectors.heads import Candidates, Head


def shapes(contract: OutputContract, input_px: HeightWidth) -> list[tuple[int, ...]]:
    """The shape of each output for one picture."""
    cells = [(input_px[0] // stride) * (input_px[1] // stride) for stride in contract.strides]
    return [*((n, contract.classes) for n in cells), *((n, 4 * contract.bins) for n in cells)]


def decode(
    outputs: Sequence[NDArray[Any]], contract: OutputContract, input_px: HeightWidth, min_score: float
) -> Candidates:
    """Candidates of at least ``min_score``; boxes are decoded for the surviving cells only."""
    count = len(contract.strides)
    boxes: list[NDArray[np.float32]] = []
    scores: list[NDArray[np.float32]] = []
    classes: list[NDArray[np.intp]] = []
    suspect = 0
    for stride, score, distance in zip(contract.strides, outputs[:count], outputs[count:], strict=True):
        usable, bad = _probabilities(score)
        suspect += bad
        cell, class_id = np.divmod(np.flatnonzero(usable >= min_score), contract.classes)
        if len(cell) == 0:
            continue
        xyxy = _boxes(distance[cell], cell, stride, input_px[1] // stride)
        finite = np.isfinite(xyxy).all(axis=1)
        suspect += int(np.count_nonzero(~finite))
        boxes.append(xyxy[finite])
        scores.append(usable[cell, class_id][finite].astype(np.float32))
        classes.append(class_id[finite])
    if not boxes:
        return Candidates(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.intp), suspect)
    return Candidates(np.concatenate(boxes), np.concatenate(scores), np.concatenate(classes), suspect)


def _probabilities(score: NDArray[Any]) -> tuple[NDArray[Any], int]:
    # The extremes tell in two cheap passes that all is well; NaN makes both comparisons false.
    if score.min() >= 0 and score.max() <= 1:
        return score, 0
    bad = ~((score >= 0) & (score <= 1)).all(axis=1)
    cleaned = score.copy()
    cleaned[bad] = -1
    return cleaned, int(np.count_nonzero(bad))


def _boxes(logits: NDArray[Any], cell: NDArray[np.intp], stride: int, columns: int) -> NDArray[np.float32]:
    bins = logits.shape[1] // 4
    logits = logits.reshape(-1, 4, bins).astype(np.float32)
    with np.errstate(invalid="ignore"):
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        # Not by matrix product: for so little work BLAS would wake its threads.
        expected = (weights * np.arange(bins, dtype=np.float32)).sum(axis=2) / weights.sum(axis=2)
        reach = expected * np.float32(stride)
    row, column = np.divmod(cell, columns)
    centre = (np.stack([column, row], axis=1).astype(np.float32) + np.float32(0.5)) * np.float32(stride)
    return np.concatenate([centre - reach[:, :2], centre + reach[:, 2:]], axis=1, dtype=np.float32)


NANODET = Head(shapes, decode)
