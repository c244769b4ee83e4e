"""To which input size a picture is padded: the fewer sizes there are, the more pictures can run together."""

import math
from dataclasses import dataclass
from functools import cache

from pipeline.geometry import Size

_MOST_STEPS = 4096
"""Larger sides, in strides, are not bucketed; no picture that is let in has them."""


@dataclass(frozen=True, slots=True)
class SizeBuckets:
    """Sides rounded up to one of few multiples of ``stride_px``.

    The steps grow with the side, so that a bucket has at most ``1 + most_padding`` times the pixels that the stride
    alone asks for: 0 keeps every multiple. What a picture is padded to does not depend on its company in a batch, so
    neither does its answer.
    """

    stride_px: int = 32
    most_padding: float = 0.0

    def of(self, size: Size) -> Size:
        """The bucket of a picture."""
        return Size(self._side_px(size.width), self._side_px(size.height))

    def _side_px(self, side_px: int) -> int:
        steps = max(1, -(-side_px // self.stride_px))
        ladder = _ladder(math.sqrt(1 + self.most_padding))
        return next((rung for rung in ladder if rung >= steps), steps) * self.stride_px


@cache
def _ladder(growth: float) -> tuple[int, ...]:
    """Rising whole numbers; whatever lies above one reaches the next by at most ``growth`` times."""
    rungs = [1]
    while rungs[-1] < _MOST_STEPS:
        rungs.append(max(rungs[-1] + 1, math.floor((rungs[-1] + 1) * growth)))
    return tuple(rungs)
