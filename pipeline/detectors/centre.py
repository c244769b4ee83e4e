"""The centre head: one probability per class and cell that an object's centre lies there, and how far its sides are.

Outputs in order: score (classes, rows, columns), probabilities, 0 in every cell that has a stronger neighbour; reach
(4, rows, columns), the distances left, top, right, bottom in input pixels from the middle of the cell.

*Source* Zhou et al., "Objects as Points", 2019, section 3 and "From points to bounding boxes"; the distances as in Tian
et al., "FCOS", ICCV 2019, section 3.1. Peaks are found by the model itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.detectors.contract import HeightWidth, OutputContract
from pipeline.detectors.heads import Candidates, Head


def shapes(contract: OutputContract, input_px: HeightWidth) -> list[tuple[int, ...]]:
    """The shape of each output for one picture; the contract's first stride is the heatmap's."""
    stride = contract.strides[0]
    rows, columns = input_px[0] // stride, input_px[1] // stride
    return [(contract.classes, rows, columns), (4, rows, columns)]


def decode(
    outputs: Sequence[NDArray[Any]],
    contract: OutputContract,
    input_px: HeightWidth,  # noqa: ARG001 - every head is given it; this one sees rows and columns
    min_score: float,
) -> Candidates:
    """Candidates of at least ``min_score``; a threshold of 0 leaves out the cells that are no peak."""
    score, reach = outputs
    stride = np.float32(contract.strides[0])
    # What is no probability, NaN among it, is not left out here but counted further down.
    cell = np.flatnonzero(~((score >= 0) & (score < min_score)))
    probability = score.ravel()[cell].astype(np.float32)
    cell, probability = cell[probability != 0], probability[probability != 0]
    class_id, place = np.divmod(cell, score.shape[1] * score.shape[2])
    row, column = np.divmod(place, score.shape[2])
    centre = (np.stack([column, row], axis=1).astype(np.float32) + np.float32(0.5)) * stride
    distance = reach.reshape(4, -1)[:, place].T.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        xyxy = np.concatenate([centre - distance[:, :2], centre + distance[:, 2:]], axis=1, dtype=np.float32)
        sound = (probability >= 0) & (probability <= 1) & np.isfinite(xyxy).all(axis=1)
    suspect = len(sound) - int(np.count_nonzero(sound))
    return Candidates(xyxy[sound], probability[sound], class_id[sound], suspect)


CENTRE = Head(shapes, decode)
