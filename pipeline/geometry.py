"""Boxes. Every box is ``xyxy``: left, top, right, bottom in pixels, right and bottom exclusive."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BoxArray = NDArray[np.float32]
"""Boxes as (n, 4) float32 ``xyxy``."""


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height of a picture in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Rect:
    """An integer rectangle in pixels: top left corner, width and height."""

    x: int
    y: int
    width: int
    height: int

    @property
    def area(self) -> int:
        return self.width * self.height

    @property
    def xyxy(self) -> tuple[int, int, int, int]:
        return self.x, self.y, self.x + self.width, self.y + self.height


def area(boxes: BoxArray) -> NDArray[np.float32]:
    """Areas (n,) of boxes (n, 4); a degenerate box has area 0."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return np.asarray(sides[:, 0] * sides[:, 1], dtype=np.float32)


def intersection(a: BoxArray, b: BoxArray) -> NDArray[np.float32]:
    """Intersection areas (n, m) of boxes a (n, 4) and b (m, 4)."""
    # Axis by axis, so that the inner loop runs along the boxes of b and not along two coordinates.
    left, top, right, bottom = np.ascontiguousarray(b.T)
    width = np.minimum(a[:, None, 2], right) - np.maximum(a[:, None, 0], left)
    height = np.minimum(a[:, None, 3], bottom) - np.maximum(a[:, None, 1], top)
    return np.asarray(np.maximum(width, 0) * np.maximum(height, 0), dtype=np.float32)


def iou(a: BoxArray, b: BoxArray) -> NDArray[np.float32]:
    """Intersection over union (n, m) of boxes a (n, 4) and b (m, 4)."""
    shared = intersection(a, b)
    union = area(a)[:, None] + area(b)[None, :] - shared
    return np.asarray(shared / np.maximum(union, 1e-9), dtype=np.float32)


def coverage(a: BoxArray, b: BoxArray) -> NDArray[np.float32]:
    """The share (n, m) of each box of a (n, 4) that lies inside each box of b (m, 4)."""
    return np.asarray(intersection(a, b) / np.maximum(area(a)[:, None], 1e-9), dtype=np.float32)


def clip(boxes: BoxArray, size: Size) -> BoxArray:
    """Boxes cut to the picture [0, width] x [0, height]."""
    limit = np.array([size.width, size.height, size.width, size.height], dtype=np.float32)
    return np.clip(boxes, 0, limit).astype(np.float32)


def pad(boxes: BoxArray, share: float, least_px: float, size: Size) -> BoxArray:
    """Boxes grown on each side by ``share`` of their own side, at least ``least_px``, cut to the picture."""
    if len(boxes) == 0:
        return boxes
    grow = np.maximum((boxes[:, 2:] - boxes[:, :2]) * share, least_px)
    return clip(np.concatenate([boxes[:, :2] - grow, boxes[:, 2:] + grow], axis=1).astype(np.float32), size)


def merge_close(boxes: BoxArray, slack: float) -> BoxArray:
    """Join boxes while the box around two has less than ``slack`` times their summed area.

    Greedy, cheapest join first, until none is left; O(n^2), for the few boxes of one frame.
    """
    rects = boxes.astype(np.float32)
    n, alive = len(rects), np.ones(len(rects), dtype=bool)
    ratio = _join_ratio(rects, rects)
    np.fill_diagonal(ratio, np.inf)
    while n:
        i, j = divmod(int(ratio.argmin()), n)
        if not ratio[i, j] < slack:
            break
        rects[i, :2] = np.minimum(rects[i, :2], rects[j, :2])
        rects[i, 2:] = np.maximum(rects[i, 2:], rects[j, 2:])
        alive[j] = False
        ratio[j, :] = ratio[:, j] = np.inf
        others = np.where(alive, _join_ratio(rects[i : i + 1], rects)[0], np.inf)
        others[i] = np.inf
        ratio[i, :] = ratio[:, i] = others
    return rects[alive]


def _join_ratio(a: BoxArray, b: BoxArray) -> NDArray[np.float32]:
    """Area (n, m) of the box around each of a (n, 4) and each of b (m, 4), as a multiple of their summed area."""
    left, top, right, bottom = np.ascontiguousarray(b.T)
    width = np.maximum(a[:, None, 2], right) - np.minimum(a[:, None, 0], left)
    height = np.maximum(a[:, None, 3], bottom) - np.minimum(a[:, None, 1], top)
    return np.asarray(width * height / np.maximum(area(a)[:, None] + area(b), 1e-9), dtype=np.float32)


def nms(boxes: BoxArray, scores: NDArray[np.float32], iou_threshold: float) -> NDArray[np.intp]:
    """Indices, best score first, that greedy non-maximum suppression keeps."""
    order = np.argsort(-scores, kind="stable")
    ranked = boxes[order]
    alive = np.ones(len(order), dtype=bool)
    # Overlaps are computed for a block of rows at once: few numpy calls, and memory linear in the number of boxes.
    for start in range(0, len(order), _NMS_BLOCK):
        block = ranked[start : start + _NMS_BLOCK]
        clear = iou(block, ranked[start:]) <= iou_threshold
        for row in range(len(block)):
            if alive[start + row]:
                alive[start + row + 1 :] &= clear[row, row + 1 :]
    return np.asarray(order[alive], dtype=np.intp)


_NMS_BLOCK = 128
