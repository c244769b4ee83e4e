"""Draw a result on its frame. CPU work."""

import cv2
import numpy as np

from edge_agent.board import Picture
from edge_agent.gate import jpeg
from pipeline.frames import Image
from pipeline.results import ResultDetection

MOST_WIDTH_PX = 960
PICTURE_QUALITY = 75
_COLOURS_BGR = {"cloud": (80, 200, 60), "edge": (40, 160, 255), "track": (230, 180, 60)}


def annotated_jpeg(picture: Picture) -> bytes:
    """The frame with its boxes as JPEG, at most ``MOST_WIDTH_PX`` wide; colours tell where a box comes from."""
    height, width = picture.image.shape[:2]
    zoom = min(1.0, MOST_WIDTH_PX / width)
    size = (max(1, round(width * zoom)), max(1, round(height * zoom)))
    canvas = np.array(cv2.resize(picture.image, size, interpolation=cv2.INTER_AREA), np.uint8)
    for found in picture.result.detections:
        _draw(canvas, found, zoom)
    return jpeg(canvas, PICTURE_QUALITY)


def _draw(canvas: Image, found: ResultDetection, zoom: float) -> None:
    x1, y1, x2, y2 = (round(v * zoom) for v in found.box)
    colour = _COLOURS_BGR[found.source]
    cv2.rectangle(canvas, (x1, y1), (x2, y2), colour, 2, cv2.LINE_AA)
    text = found.label if found.track_id is None else f"{found.label} {found.track_id}"
    # The built-in font knows ASCII only; other scripts stay readable in the result itself.
    text = text.encode("ascii", "replace").decode()
    (w, h), base = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)
    top = max(0, y1 - h - base - 2)
    cv2.rectangle(canvas, (x1, top), (x1 + w + 4, top + h + base + 2), colour, cv2.FILLED)
    cv2.putText(canvas, text, (x1 + 2, top + h + 1), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (20, 20, 20), 1, cv2.LINE_AA)
