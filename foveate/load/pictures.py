"""What requests show: JPEGs of the sizes asked for, every one with bytes of its own."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import cv2
import numpy as np

from edge_agent.capture.synthetic import Painter, Scene
from foveate.bench.reference import frames
from foveate.load.arrivals import HeightWidth
from pipeline.frames import Image

QUALITY = 60
"""What the edge sends mosaics with by default."""
KINDS_PER_SIZE = 32
_START = b"\xff\xd8"
_COMMENT = b"\xff\xfe"


class Pictures:
    """JPEGs by size (height, width) and number: of a clip's frames, or of a synthetic scene, shrunk to the size.

    Their pixels repeat after ``KINDS_PER_SIZE``, which a model does not notice. A comment segment makes the bytes of
    each number and run its own, so that neither a cache nor coalescing takes two of them for one.
    """

    def __init__(self, sizes_px: Iterable[HeightWidth], clip: Path | None = None) -> None:
        wanted = sorted(set(sizes_px))
        self._jpegs: dict[HeightWidth, list[bytes]] = {size: [] for size in wanted}
        for image in _clip_images(clip) if clip is not None else _painted(max(wanted, default=(32, 32))):
            for height, width in wanted:
                small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
                coded = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1]
                self._jpegs[height, width].append(coded.tobytes())

    def jpeg(self, size_px: HeightWidth, number: int, run: int) -> bytes:
        """The picture of this number in a run, the same bytes whenever it is asked for."""
        kinds = self._jpegs[size_px]
        note = b"picture %d of run %d" % (number, run)
        plain = kinds[number % len(kinds)]
        return b"".join((_START, _COMMENT, (len(note) + 2).to_bytes(2, "big"), note, plain[len(_START) :]))


def _clip_images(clip: Path) -> Iterator[Image]:
    """The first frames of a clip. Raises SourceError where it cannot be read."""
    for _, image in zip(range(KINDS_PER_SIZE), frames(clip), strict=False):
        yield image


def _painted(largest_px: HeightWidth) -> Iterator[Image]:
    """A synthetic scene a second per picture, at least as large as the largest that is wanted."""
    height, width = (max(side, least) for side, least in zip(largest_px, (480, 640), strict=True))
    painter = Painter(Scene(width=width, height=height, fps=1.0, objects=5))
    for number in range(KINDS_PER_SIZE):
        yield np.asarray(painter.paint(number))
