"""The seam between Foveate and a detection model."""

from collections.abc import Sequence
from typing import Protocol

from pipeline.detections import Detections
from pipeline.frames import Image


class Detector(Protocol):
    """A loaded, proven model. ``detect`` blocks and may be called from any one thread at a time."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        """Detections per picture, in its own pixels, best score first, after non-maximum suppression.

        ``images`` are (height, width, 3) uint8 BGR of any size; each is resized or padded by the model's contract and
        the transform is undone exactly. Scores are at least ``min_score``.
        """
        ...
