"""The small grey picture that change is looked for in, and what is computed on it."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size

Grey = NDArray[np.uint8]
"""A small blurred grey picture, or a mask of one (0 or 255), (height, width) uint8."""
Reference = NDArray[np.uint8] | NDArray[np.float32]
"""An earlier small picture, or a mean of several, (height, width)."""

LEAST_LIT_LEVELS = 16
"""Pixels darker than this say nothing about a gain."""
_LEAST_SAMPLE = 256
_CELL_PX = 8
_CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Where to look on the small picture: a 0/255 mask, how many pixels it lets through, a sparse sample of them."""

    mask: Grey
    pixels: int
    sample: NDArray[np.intp]

    @classmethod
    def of(cls, shape: tuple[int, ...], full_mask: NDArray[np.uint8] | None) -> "Field":
        """Fit a mask of any size, 0 where nothing is to be noticed (None: look everywhere), to a small picture."""
        mask = np.full(shape, 255, np.uint8)
        if full_mask is not None:
            small = cv2.resize(full_mask, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST)
            mask[small == 0] = 0
        grid = np.zeros(mask.shape, bool)
        grid[::4, ::4] = True
        inside = mask > 0
        sparse = np.flatnonzero(inside & grid)
        sample = sparse if len(sparse) >= _LEAST_SAMPLE else np.flatnonzero(inside)
        return cls(mask, int(np.count_nonzero(inside)), sample)

    def beyond(self, difference: Grey, levels: float) -> Grey:
        """Mask of what differs by more than so many grey levels, and is looked at."""
        mask = cv2.threshold(difference, levels, 255, cv2.THRESH_BINARY)[1]
        return np.asarray(cv2.bitwise_and(mask, self.mask), np.uint8)

    def spread(self, mask: Grey) -> float:
        """The share of the cells looked at in which a mask has anything."""
        cells = (max(1, mask.shape[1] // _CELL_PX), max(1, mask.shape[0] // _CELL_PX))
        marked, whole = (cv2.resize(m, cells, interpolation=cv2.INTER_AREA) for m in (mask, self.mask))
        return cv2.countNonZero(marked) / max(1, cv2.countNonZero(whole))

    def under_light_of(self, grey: Grey, reference: Reference) -> Grey:
        """The reference as it would look under the present exposure: one gain for all, never beyond white."""
        # As float32: bytes would be divided in half precision, which is slow and coarse.
        now, then = (picture.ravel()[self.sample].astype(np.float32) for picture in (grey, reference))
        lit = then >= LEAST_LIT_LEVELS
        gain = median(now[lit] / then[lit]) if np.count_nonzero(lit) * 2 >= len(lit) > 0 else 1.0
        return np.asarray(cv2.convertScaleAbs(reference, alpha=gain), np.uint8)

    def noise_levels(self, grey: Grey, expected: Grey) -> float:
        """Standard deviation of the noise: most pixels show what they showed before (median absolute deviation)."""
        return median(cv2.absdiff(grey, expected).ravel()[self.sample]) / 0.6745


def difference(grey: Grey, expected: Grey) -> Grey:
    """How far each pixel lies from what was expected there and right beside it, in grey levels.

    The neighbours count so that a camera that shakes by a pixel or two of its own is no change.
    """
    above = cv2.subtract(grey, cv2.dilate(expected, _CROSS))
    return np.asarray(cv2.max(above, cv2.subtract(cv2.erode(expected, _CROSS), grey)), np.uint8)


def shrink(image: Image, most_height_px: int) -> Grey:
    """The small grey picture of a frame (height, width, 3) uint8 BGR."""
    height = min(most_height_px, image.shape[0])
    width = max(1, round(image.shape[1] * height / image.shape[0]))
    # Halving is many times cheaper than averaging over a large or odd ratio at once.
    while image.shape[0] >= 2 * height and image.shape[1] >= 2 * width:
        half = (image.shape[1] // 2, image.shape[0] // 2)
        image = np.asarray(cv2.resize(image, half, interpolation=cv2.INTER_AREA), np.uint8)
    small = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(cv2.GaussianBlur(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY), (5, 5), 0), np.uint8)


def median(values: NDArray[Any]) -> float:
    """The (upper) median; 0 without values."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle]) if len(values) else 0.0


def parts(mask: Grey) -> NDArray[np.int32]:
    """Left, top, width, height, area (n, 5) of the connected parts of a mask."""
    _, _, stats, _ = cv2.connectedComponentsWithStatsWithAlgorithm(mask, 8, cv2.CV_32S, cv2.CCL_BBDT)
    return np.asarray(stats[1:], np.int32)


def boxes_of(rows: NDArray[np.int32], shape: tuple[int, ...], size: Size) -> BoxArray:
    """Boxes (n, 4) ``xyxy`` in frame pixels of parts of a small picture."""
    boxes = np.stack([rows[:, 0], rows[:, 1], rows[:, 0] + rows[:, 2], rows[:, 1] + rows[:, 3]], axis=1)
    zoom = np.array([size.width / shape[1], size.height / shape[0]] * 2)
    return np.asarray(boxes * zoom, dtype=np.float32)
