"""A lesson's picture: the region of interest of a frame, made smaller, and boxes brought into it."""

import cv2
import numpy as np

from edge_agent.lessons.labels import Annotation
from edge_agent.lessons.lesson import Conditions
from edge_agent.lessons.settings import LessonSettings
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import BoxArray, Rect, Size, area, clip

_COLOURED = 3.0
"""Mean difference between the colour channels, of 255, from which a picture is in colour: a camera under infrared
sends grey, and what differs then is the noise of compression.
"""


def shrink(image: Image, window: Rect, settings: LessonSettings) -> Image:
    """The window of a frame, as large as fits into the picture's box; never enlarged. CPU work."""
    x1, y1, x2, y2 = window.xyxy
    shown = image[y1:y2, x1:x2]
    scale = min(settings.picture_width_px / window.width, settings.picture_height_px / window.height, 1.0)
    size = (max(1, round(window.width * scale)), max(1, round(window.height * scale)))
    return np.ascontiguousarray(cv2.resize(shown, size, interpolation=cv2.INTER_AREA), np.uint8)


def conditions(picture: Image, hour: int) -> Conditions:
    """The light in a picture that was taken in this hour of the site's day."""
    luma = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    blue, green, red = cv2.split(picture)
    spread = cv2.subtract(cv2.max(cv2.max(blue, green), red), cv2.min(cv2.min(blue, green), red))
    return Conditions(hour, float(np.mean(luma)), float(np.std(luma)), bool(np.mean(spread) >= _COLOURED))


def into_picture(annotation: Annotation, window: Rect, picture: Size) -> Annotation:
    """The annotation in pixels of the picture that shows the window; what lies outside it is left out."""
    known, ignored = (_into(boxes, window, picture) for boxes in (annotation.known.xyxy, annotation.ignored))
    inside = area(known) > 0
    return Annotation(annotation.known.with_boxes(known).select(inside), ignored[area(ignored) > 0])


def _into(boxes: BoxArray, window: Rect, picture: Size) -> BoxArray:
    corner = np.array([window.x, window.y] * 2, np.float32)
    scale = np.array([picture.width / window.width, picture.height / window.height] * 2, np.float32)
    return clip((boxes - corner) * scale, picture)


def lasting(known: Detections, epoch: int) -> Detections:
    """The detections with ids that no later run of the agent gives to another object."""
    ids = np.where(known.track_id >= 0, (np.int64(epoch) << 24) + (known.track_id & 0xFFFFFF), np.int64(-1))
    return Detections(known.xyxy.copy(), known.score.copy(), known.label.copy(), known.source.copy(), ids)


def not_counted(found: Detections, counted: Detections) -> BoxArray:
    """Where (m, 4) objects are seen that do not count, as they lie under a mask: no background is learned there."""
    kept = {tuple(box) for box in counted.xyxy.tolist()}
    return found.xyxy[[tuple(box) not in kept for box in found.xyxy.tolist()]].reshape(-1, 4)
