"""Regions and masks as they are written: boxes or points, in pixels or as shares of the frame. Pure."""

import math
from typing import Any

from edge_agent.settings import Polygon

LEAST_REGION_PX = 8
"""A region of interest has at least this side: the agent refuses less."""

MOST_SIDE_PX = 65_535
MOST_POINTS = 200

_NUMBER = {"type": "number", "minimum": 0}
_POINT = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
_FORMS: list[dict[str, Any]] = [
    {"type": "array", "items": _NUMBER, "minItems": 4, "maxItems": 4},
    {"type": "array", "items": _POINT, "minItems": 3, "maxItems": MOST_POINTS},
]
POLYGON_SCHEMA = {"anyOf": _FORMS}
ROI_SCHEMA = {"anyOf": [*_FORMS, {"const": []}]}


def read_roi(value: object) -> Polygon:
    """A region of interest; empty for everywhere. Raises ValueError."""
    return () if value is None or value == [] or value == () else read_polygon(value, LEAST_REGION_PX)


def read_mask(value: object) -> Polygon:
    """A mask. Raises ValueError."""
    return read_polygon(value, 1)


def read_polygon(value: object, least_px: float) -> Polygon:
    """A box [x1, y1, x2, y2] or a list of points [x, y] as points. Raises ValueError on what no frame could have.

    Numbers are pixels, or shares of the frame where all lie between 0 and 1.
    """
    items = list(value) if isinstance(value, list | tuple) else []
    box = len(items) == 4 and not any(isinstance(item, list | tuple) for item in items)
    try:
        numbers = [float(item) for item in items] if box else []
        points = _corners(*numbers) if box else tuple((float(x), float(y)) for x, y in (_pair(item) for item in items))
    except (TypeError, ValueError, OverflowError):
        points = ()
    if len(points) < 3:
        raise ValueError("it must be a box [x1, y1, x2, y2] or at least 3 points [[x, y], ...]")
    _check_polygon(points, least_px)
    return points


def _corners(x1: float, y1: float, x2: float, y2: float) -> Polygon:
    if x2 <= x1 or y2 <= y1:
        return ((x1, y1),) * 4  # has no area, which is refused in one place
    return (x1, y1), (x2, y1), (x2, y2), (x1, y2)


def _pair(item: object) -> tuple[Any, Any]:
    if not isinstance(item, list | tuple) or len(item) != 2:
        raise ValueError("not a point")
    return item[0], item[1]


def _check_polygon(points: Polygon, least_px: float) -> None:
    flat = [number for point in points for number in point]
    if not all(math.isfinite(number) for number in flat):
        raise ValueError("its numbers must be finite")
    if min(flat) < 0:
        raise ValueError("no number may be negative: (0, 0) is the top left corner of the frame")
    if max(flat) > MOST_SIDE_PX or len(points) > MOST_POINTS:
        raise ValueError(f"at most {MOST_POINTS} points of at most {MOST_SIDE_PX} pixels are allowed")
    pairs = zip(points, points[1:] + points[:1], strict=True)
    if abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs)) < 1e-9:
        raise ValueError(
            "its area is 0: a box needs x1 < x2 and y1 < y2, and sides must not lie on or cross each other"
        )
    sides = [max(axis) - min(axis) for axis in zip(*points, strict=True)]
    if max(flat) > 1 and min(sides) < least_px:
        raise ValueError(
            f"it is less than {least_px:g} px wide or high: numbers are pixels, or shares of the frame only where all"
            " lie between 0 and 1"
        )
