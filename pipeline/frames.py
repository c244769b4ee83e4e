"""A frame and the key that ties picture, boxes, source and time together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry import Size

Image = NDArray[np.uint8]
"""A picture as (height, width, 3) uint8, BGR unless the name says otherwise."""


@dataclass(frozen=True, slots=True, order=True)
class FrameKey:
    """Names one frame for ever: the camera, the run of the agent that saw it, and its number in that run."""

    camera: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture of one camera.

    ``image`` is (height, width, 3) uint8 BGR and read-only. ``captured_at_s`` is monotonic, taken when the read
    returned. ``media_ms`` is the position in the source, where it has one, and serves as a label and for sampling
    of files only.
    """

    key: FrameKey
    image: Image
    captured_at_s: float
    media_ms: float | None

    @property
    def size(self) -> Size:
        height, width = self.image.shape[:2]
        return Size(width, height)
