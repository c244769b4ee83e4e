"""From whatever a back end hands over to the one picture format, and what a glance at it tells."""

import zlib
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.frames import Image
from pipeline.results import CameraState

GLANCE_STEP_PX = 8
DARK_MEAN = 12.0
DARK_DEVIATION = 8.0
DARK_AFTER_S = 1.0
FROZEN_AFTER_S = 10.0


def to_bgr(raw: object, pixel_limit: int) -> Image | str:
    """Turn a decoded picture into a contiguous (h, w, 3) uint8 BGR image, or say why it is none.

    Takes grey (h, w) or (h, w, 1), BGR, BGRA; 16-bit values are scaled to 8 bits.
    """
    if not isinstance(raw, np.ndarray) or raw.size == 0 or raw.ndim not in (2, 3):
        return "the reader handed over an empty picture"
    height, width = raw.shape[:2]
    if height * width > pixel_limit:
        return (
            f"a picture of {width}x{height} has more pixels than the limit of {pixel_limit}; "
            "raise the pixel limit or let the source send smaller pictures"
        )
    if raw.dtype == np.uint16:
        raw = (raw >> 8).astype(np.uint8)
    channels = 1 if raw.ndim == 2 else raw.shape[2]
    if raw.dtype != np.uint8 or channels not in (1, 3, 4):
        return f"a picture of type {raw.dtype} with {channels} channels cannot be used"
    if channels == 1:
        raw = cv2.cvtColor(raw, cv2.COLOR_GRAY2BGR)
    elif channels == 4:
        raw = cv2.cvtColor(raw, cv2.COLOR_BGRA2BGR)
    return np.ascontiguousarray(raw)


@dataclass(frozen=True, slots=True)
class Glance:
    """What every eighth row and column of a picture tells: brightness, contrast, and whether it is the same again."""

    mean: float
    deviation: float
    checksum: int


def glance(image: Image) -> Glance:
    """Look at a (h, w, 3) image without reading more than an eighth of it."""
    rows: NDArray[np.uint8] = np.ascontiguousarray(image[::GLANCE_STEP_PX])
    mean, deviation = cv2.meanStdDev(rows[:, ::GLANCE_STEP_PX].reshape(-1, 1))
    return Glance(float(mean[0, 0]), float(deviation[0, 0]), zlib.crc32(rows.data))


class PictureWatch:
    """Tells a camera that sees nothing (dark) or repeats itself (frozen) from a live one. Pure: time is handed in."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._dark = False
        self._differs_since_s: float | None = None
        self._checksum: int | None = None
        self._same_since_s = 0.0

    def see(self, look: Glance, at_s: float) -> tuple[CameraState, str]:
        """The state after one more picture, with a reason that stays the same while the state does."""
        dark = look.mean < DARK_MEAN and look.deviation < DARK_DEVIATION
        if dark == self._dark:
            self._differs_since_s = None
        elif self._differs_since_s is None:
            self._differs_since_s = at_s
        elif at_s - self._differs_since_s >= DARK_AFTER_S:
            self._dark, self._differs_since_s = dark, None
        if look.checksum != self._checksum:
            self._checksum, self._same_since_s = look.checksum, at_s
        if self._dark:
            return CameraState.DARK, "the picture is black or nearly so"
        if self._live and at_s - self._same_since_s >= FROZEN_AFTER_S:
            return CameraState.FROZEN, f"the camera has sent the same picture for over {FROZEN_AFTER_S:.0f} s"
        return CameraState.LIVE, "pictures arrive"
