"""What a student is to say about a picture whose objects are known: heatmap, distances and how much each counts.

*Source* Liu et al., "Training-Time-Friendly Network for Real-Time Object Detection", AAAI 2020, sections 3.2 and 3.3:
elongated Gaussians, and distances learned all around a centre, which takes far fewer steps than at the centre alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foveate.training.network import STRIDE_PX
from pipeline.detectors.contract import HeightWidth
from pipeline.geometry import BoxArray, area

EXTENT = 0.54 / 6
"""Standard deviation of a Gaussian as a share of the box's side; the paper's alpha is 0.54."""
LEAST_SPREAD_PX = 1.0
NEGLIGIBLE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What is known of one picture, in input pixels: objects (n, 4) ``xyxy`` with their class (n,) from 0, and
    ``ignored`` (m, 4), where nothing is to be learned.
    """

    xyxy: BoxArray
    class_id: NDArray[np.intp]
    ignored: BoxArray


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """All float32: ``heat`` (classes, rows, columns) in [0, 1], 1 at centres; ``counted`` (classes, rows, columns),
    0 where no loss is taken; ``reach`` (4, rows, columns) in input pixels; ``weight`` (rows, columns) of the distances,
    0 where there are none.
    """

    heat: NDArray[np.float32]
    counted: NDArray[np.float32]
    reach: NDArray[np.float32]
    weight: NDArray[np.float32]


def targets(answers: Answers, classes: int, input_px: HeightWidth) -> Targets:
    """Targets of one picture. Objects whose centre lies outside of it are left out, whatever shows of them ignored."""
    rows, columns = input_px[0] // STRIDE_PX, input_px[1] // STRIDE_PX
    heat = np.zeros((classes, rows, columns), np.float32)
    counted = np.ones((classes, rows, columns), np.float32)
    reach = np.zeros((4, rows, columns), np.float32)
    weight = np.zeros((rows, columns), np.float32)
    x, y = ((np.arange(count, dtype=np.float32) + 0.5) * STRIDE_PX for count in (columns, rows))
    middle = (answers.xyxy[:, :2] + answers.xyxy[:, 2:]) / 2
    limit = np.array([input_px[1], input_px[0]], np.float32)
    inside = np.asarray(((middle >= 0) & (middle < limit)).all(axis=1))
    unknown = _covered(np.concatenate([answers.ignored, answers.xyxy[~inside]]), x, y)
    # What is doubtful about a place with a known object is mostly that object seen twice: there it is learned.
    counted[:, unknown & ~_covered(answers.xyxy[inside], x, y)] = 0
    # Larger boxes first: where two overlap, the distances are the smaller one's, which is mostly in front.
    sizes = area(answers.xyxy)
    for index in np.argsort(-sizes, kind="stable"):
        if not inside[index]:
            continue
        box, class_id = answers.xyxy[index], answers.class_id[index]
        column, row = (middle[index] // STRIDE_PX).astype(int)
        spread_x, spread_y = np.maximum((box[2:] - box[:2]) * EXTENT, LEAST_SPREAD_PX)
        bump = np.outer(_bell(y - y[row], spread_y), _bell(x - x[column], spread_x))
        counted[class_id, row, column] = 1  # a box smaller than a cell covers the middle of none
        near = bump >= NEGLIGIBLE
        heat[class_id] = np.maximum(heat[class_id], np.where(near, bump, 0))
        sides = np.broadcast_arrays(x - box[0], (y - box[1])[:, None], box[2] - x, (box[3] - y)[:, None])
        reach[:, near] = np.stack(sides)[:, near]
        weight[near] = bump[near] / bump[near].sum() * math.log(max(float(sizes[index]), math.e))
    return Targets(heat, counted, reach, weight)


def _covered(boxes: BoxArray, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which cells (rows, columns) have their middle in any of the boxes."""
    across = (x >= boxes[:, :1]) & (x < boxes[:, 2:3])
    down = (y >= boxes[:, 1:2]) & (y < boxes[:, 3:])
    return np.asarray((down[:, :, None] & across[:, None, :]).any(axis=0))


def _bell(distance: NDArray[np.float32], spread: float) -> NDArray[np.float32]:
    return np.asarray(np.exp(-(distance**2) / (2 * spread**2)), np.float32)
