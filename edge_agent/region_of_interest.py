"""Region of interest and masks of one camera, bound to the size of its frames. Pure."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_agent.settings import Polygon
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Rect, Size
from pipeline.mosaic import GREY

_EDGE_PX = 3
"""Of a line on a mask's edge; half of it lies outside."""


class RegionError(ValueError):
    """The region does not fit the frames; the message says how."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionOfInterest:
    """Where to look. ``window`` is the part of the frame that the small model sees; ``mask`` (height, width) uint8 is
    255 where things count, None where they count everywhere. ``warning`` names what had to be cut off.
    """

    window: Rect
    mask: NDArray[np.uint8] | None
    warning: str = ""

    def keep(self, found: Detections) -> Detections:
        """The detections whose centre lies where things count."""
        if self.mask is None or not len(found):
            return found
        height, width = self.mask.shape
        x = np.clip((found.xyxy[:, 0] + found.xyxy[:, 2]) / 2, 0, width - 1).astype(int)
        y = np.clip((found.xyxy[:, 1] + found.xyxy[:, 3]) / 2, 0, height - 1).astype(int)
        return found.select(self.mask[y, x] > 0)


def bind(roi: Polygon, masks: tuple[Polygon, ...], size: Size) -> RegionOfInterest:
    """Fit a region to frames of ``size``. Raises RegionError where nothing would be left to look at."""
    whole = Rect(0, 0, size.width, size.height)
    if not roi and not masks:
        return RegionOfInterest(whole, None)
    mask = np.zeros((size.height, size.width), np.uint8) if roi else np.full((size.height, size.width), 255, np.uint8)
    window, warning = whole, ""
    if roi:
        points = _pixels(roi, size)
        window = _window(points, size)
        if (points.min(axis=0) < -1).any() or (points.max(axis=0) > np.array([size.width, size.height]) + 1).any():
            warning = f"the region of interest reaches beyond the frame of {size.width}x{size.height} and was cut"
        cv2.fillPoly(mask, [np.round(points).astype(np.int32)], 255)
    for polygon in masks:
        cv2.fillPoly(mask, [np.round(_pixels(polygon, size)).astype(np.int32)], 0)
    if not mask.any():
        raise RegionError("the masks cover the whole region of interest; nothing is left to look at")
    return RegionOfInterest(window, mask, warning)


def paint_over(image: Image, masks: tuple[Polygon, ...]) -> Image:
    """A copy of a picture (height, width, 3) uint8 BGR in which everything under a mask has one colour.

    A pixel more is covered on all sides, so that what is under a mask in part is covered too.
    """
    height, width = image.shape[:2]
    covered = image.copy()
    for polygon in masks:
        points = [np.round(_pixels(polygon, Size(width, height))).astype(np.int32)]
        cv2.fillPoly(covered, points, (GREY, GREY, GREY))
        cv2.polylines(covered, points, isClosed=True, color=(GREY, GREY, GREY), thickness=_EDGE_PX)
    return covered


def _pixels(polygon: Polygon, size: Size) -> NDArray[np.float64]:
    points = np.array(polygon, dtype=np.float64)
    if points.max() <= 1.0 and points.min() >= 0.0:
        points = points * [size.width, size.height]
    return points


def _window(points: NDArray[np.float64], size: Size) -> Rect:
    low = np.floor(np.clip(points.min(axis=0), 0, [size.width, size.height])).astype(int)
    high = np.ceil(np.clip(points.max(axis=0), 0, [size.width, size.height])).astype(int)
    if (high - low < 8).any():
        raise RegionError(
            f"the region of interest {points.astype(int).tolist()} leaves less than 8 pixels of the frame of "
            f"{size.width}x{size.height}"
        )
    return Rect(int(low[0]), int(low[1]), int(high[0] - low[0]), int(high[1] - low[1]))
