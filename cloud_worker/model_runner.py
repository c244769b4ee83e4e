"""The models in their one thread, and JPEG decoding in another."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import cv2
import numpy as np

from cloud_worker.threads import BlockingRunner
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.frames import Image
from pipeline.geometry import Size


class Models(Protocol):
    """What the batcher needs of the models."""

    async def detect(self, model: str, images: Sequence[Image], min_score: float) -> list[Detections] | str:
        """Detections per picture, in its own pixels; or one sentence that says why the whole batch failed."""
        ...


class ModelRunner:
    """Runs detectors one batch at a time, so that two models never fight for the same cores."""

    def __init__(self, detectors: Mapping[str, Detector], runner: BlockingRunner) -> None:
        self._detectors = detectors
        self._runner = runner

    async def detect(self, model: str, images: Sequence[Image], min_score: float) -> list[Detections] | str:
        detector = self._detectors[model]

        def attempt() -> list[Detections] | str:
            try:
                found = detector.detect(images, min_score)
            except Exception as error:  # noqa: BLE001 - any fault of a model costs this batch alone, and is reported
                return f"{model} raised {type(error).__name__}: {str(error)[:200]}"
            if len(found) != len(images):
                return f"{model} gave {len(found)} answers for {len(images)} pictures"
            return found

        return await self._runner.run(attempt)


def decode_jpeg(jpeg: memoryview, size: Size) -> Image | None:
    """Decode to (height, width, 3) uint8 BGR; None unless it is a picture of the size that its header says.

    An orientation tag is ignored: crops are placed in the pixels as sent.
    """
    try:
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:
        return None
    if image is None or image.shape != (size.height, size.width, 3):
        return None
    image.setflags(write=False)
    return np.asarray(image, dtype=np.uint8)
