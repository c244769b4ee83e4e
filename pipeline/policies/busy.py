"""Places that move for ever: a tree, a flag, a spider's thread before the lens, a screen.

The picture is divided into cells. One in which something differs most of the time, while nothing that is tracked is
there, stops counting as change and as motion, until it is calm again or something is tracked there.
"""

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.geometry import BoxArray
from pipeline.policies.small_picture import Grey

Cells = NDArray[np.float32]
"""One number per cell (rows, columns)."""


_NEIGHBOURS = np.ones((3, 3), np.uint8)


@dataclass(frozen=True, slots=True)
class BusySettings:
    """A cell of ``cell_px`` small pixels is busy once it moved in the share ``begins`` of the looks of about
    ``memory_s``, and until that share falls below ``ends``.
    """

    cell_px: int = 6
    memory_s: float = 30.0
    begins: float = 0.3
    ends: float = 0.1


class BusyCells:
    """The busy cells of one camera, for small pictures of ``shape`` (height, width)."""

    def __init__(self, shape: tuple[int, ...], settings: BusySettings = BusySettings()) -> None:
        self._settings = settings
        cells = (-(-shape[0] // settings.cell_px), -(-shape[1] // settings.cell_px))
        self._shape = shape
        self._share: Cells = np.zeros(cells, np.float32)
        self._busy: NDArray[np.bool_] = np.zeros(cells, bool)
        self._at_s = float("-inf")

    def quieten(self, mask: Grey) -> Grey:
        """The mask of what differs, without what lies in busy cells or right beside them."""
        if not self._busy.any():
            return mask
        calm = cv2.erode(np.where(self._busy, np.uint8(0), np.uint8(255)), _NEIGHBOURS)
        height, width = self._shape
        side = self._settings.cell_px
        whole = cv2.resize(calm, None, fx=side, fy=side, interpolation=cv2.INTER_NEAREST)[:height, :width]
        return np.asarray(cv2.bitwise_and(mask, np.ascontiguousarray(whole)), np.uint8)

    def learn(self, mask: Grey, tracked: BoxArray, at_s: float) -> None:
        """Take in where something differs (before it was quietened) and where tracked things (n, 4), in small
        pixels, are.
        """
        s = self._settings
        elapsed_s = min(max(at_s - self._at_s, 0.0), 1.0)
        self._at_s = at_s
        height, width = self._shape
        bottom, right = -height % s.cell_px, -width % s.cell_px
        padded = cv2.copyMakeBorder(mask, 0, bottom, 0, right, cv2.BORDER_CONSTANT) if bottom or right else mask
        active = cv2.resize(padded, self._share.shape[::-1], interpolation=cv2.INTER_AREA) > 0
        self._share += np.float32(1 - math.exp(-elapsed_s / s.memory_s)) * (active - self._share)
        for x1, y1, x2, y2 in np.clip(tracked / s.cell_px, 0, 1 << 20).tolist():
            self._share[int(y1) : math.ceil(y2), int(x1) : math.ceil(x2)] = 0.0
        self._busy = self._share >= np.where(self._busy, s.ends, s.begins).astype(np.float32)
