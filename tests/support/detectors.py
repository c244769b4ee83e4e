"""Detectors and runners with scripted behaviour, for tests of what stands around a model."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import cv2
import numpy as np

from pipeline.detections import Detections
from pipeline.frames import Image

T = TypeVar("T")

POISON_GREY = 248
"""Pictures of this grey make a scripted detector raise."""


def grey_picture(grey: int, width: int = 64, height: int = 64) -> Image:
    """A flat (height, width, 3) uint8 BGR picture."""
    return np.full((height, width, 3), grey, np.uint8)


def jpeg_of(image: Image) -> bytes:
    """The picture as JPEG."""
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()


class ScriptedDetector:
    """Answers each picture with one box whose label tells the picture's grey, so that mix-ups show.

    ``run_s`` gives the duration of a batch by its size; ``VirtualRunner`` makes it pass. ``fails`` says which batches
    raise, by the greys in them (rounded to 8).
    """

    def __init__(
        self,
        name: str = "m",
        run_s: Callable[[int], float] = lambda batch: 0.02 * batch,
        fails: Callable[[list[int]], bool] = lambda greys: POISON_GREY in greys,
    ) -> None:
        self.name = name
        self.version = "1"
        self.labels = tuple(f"grey{grey}" for grey in range(0, 256, 8))
        self.batches: list[list[int]] = []
        self.shapes: list[set[tuple[int, ...]]] = []
        self.last_run_s = 0.0
        self._run_s = run_s
        self._fails = fails

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        greys = [round(float(image.mean()) / 8) * 8 for image in images]
        self.batches.append(greys)
        self.shapes.append({image.shape for image in images})
        self.last_run_s = self._run_s(len(images))
        if self._fails(greys):
            raise RuntimeError(f"cannot run {greys}")
        return [Detections.of([[8, 8, 24, 24]], [0.9], [f"grey{grey}"]) for grey in greys]


class VirtualRunner:
    """A blocking runner for virtual time: the call is instant, then its scripted duration passes on the loop."""

    def __init__(self, duration_s: Callable[[], float] = lambda: 0.0) -> None:
        self._duration_s = duration_s
        self.closed = False

    async def run(self, call: Callable[[], T]) -> T:
        result = call()
        await asyncio.sleep(self._duration_s())
        return result

    def close(self) -> None:
        self.closed = True
