"""Small video files made on the spot."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2


def write_clip(path: Path, images: Iterable[Any]) -> Path:
    """Write BGR pictures of one size as a Motion JPEG file at 10 fps."""
    writer: cv2.VideoWriter | None = None
    for image in images:
        if writer is None:
            height, width = image.shape[:2]
            writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10.0, (width, height))
            assert writer.isOpened()
        writer.write(image)
    assert writer is not None
    writer.release()
    return path
