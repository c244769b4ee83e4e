"""One lesson: what the small model saw of a frame, and what was finally known about it."""

from dataclasses import dataclass
from datetime import datetime

from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size


@dataclass(frozen=True, slots=True)
class Conditions:
    """The light that a lesson was taken in. ``hour`` 0..23 is the site's own; ``brightness`` is the mean of the
    picture's luma and ``contrast`` its standard deviation, both 0..255; ``coloured`` False at night under infrared.
    """

    hour: int
    brightness: float
    contrast: float
    coloured: bool


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A small whole picture of a camera with the final answer for its frame.

    ``picture`` is (height, width, 3) uint8 BGR: the region of interest of a frame, made smaller, its sides in the same
    proportion. ``known`` are the objects in it, in picture pixels, with the larger model's scores and the tracks' ids,
    which no later run of the agent gives to others (-1: none). ``ignored`` (m, 4) xyxy in picture pixels is where
    nobody knows for sure: neither object nor background is learned there. ``teacher`` and ``edge`` are the models as
    name@version, ``taken_at`` is wall time with a zone. ``window`` is the size in frame pixels of what the picture
    shows.
    """

    camera: str
    taken_at: datetime
    picture: Image
    window: Size
    known: Detections
    ignored: BoxArray
    teacher: str
    edge: str
    conditions: Conditions
