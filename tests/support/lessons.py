"""Lessons of a made-up camera, and models that know more or less of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from edge_agent.lessons.lesson import Conditions, Lesson
from pipeline.detections import Detections, Source
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.timing import ManualClock

BEGAN = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
WIDTH, HEIGHT = 128, 96


def lesson(
    number: int, boxes: Sequence[Sequence[float]] = (), ignored: Sequence[Sequence[float]] = (), apart_s: float = 2.0
) -> Lesson:
    """A lesson whose picture tells its number and has a bright square for every box; all of class person."""
    picture: Image = np.full((HEIGHT, WIDTH, 3), 40, np.uint8)
    picture[0, 0] = number % 256, number // 256, 0
    for x1, y1, x2, y2 in boxes:
        picture[int(y1) : int(y2), int(x1) : int(x2)] = 220
    return Lesson(
        camera="yard",
        taken_at=BEGAN + timedelta(seconds=apart_s * number),
        picture=picture,
        window=Size(2 * WIDTH, 2 * HEIGHT),
        known=Detections.of(
            list(boxes), [0.9] * len(boxes), ["person"] * len(boxes), Source.CLOUD, list(range(len(boxes)))
        ),
        ignored=np.array(ignored, np.float32).reshape(-1, 4),
        teacher="larger@1",
        edge="general@1",
        conditions=Conditions(9, 40.0, 20.0, coloured=True),
    )


def scene(count: int, seed: int = 0, empty_share: float = 0.2) -> list[Lesson]:
    """Lessons in order, each with up to three people, some with none."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        boxes = []
        if random.random() >= empty_share:
            for column in range(int(random.integers(1, 4))):
                x, y = 40 * column + float(random.integers(0, 16)), float(random.integers(8, 50))
                boxes.append((x, y, x + 16, y + 32))
        made.append(lesson(number, boxes))
    return made


class Pupil:
    """A model that finds each person of a lesson with a chance, and things that are not there with another.

    It knows a lesson by the number in its picture, and is the same each time. A look takes ``takes_s`` on ``clock``.
    """

    labels: tuple[str, ...] = ("person",)

    def __init__(self, name: str, lessons: Sequence[Lesson], finds: float, invents: float = 0.0, seed: int = 1) -> None:
        self.name, self.version = name, "1"
        self.clock, self.takes_s = ManualClock(), 0.0
        random = np.random.default_rng(seed)
        self._found = {number_of(one.picture): _found(one, finds, invents, random) for one in lessons}

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        self.clock.advance(self.takes_s)
        found = [self._found[number_of(image)] for image in images]
        return [one.select(one.score >= min_score) for one in found]


def number_of(picture: Image) -> int:
    """The number that a lesson's picture tells."""
    return int(picture[0, 0, 0]) + 256 * int(picture[0, 0, 1])


def _found(one: Lesson, finds: float, invents: float, random: np.random.Generator) -> Detections:
    boxes = [box for box in one.known.xyxy if random.random() < finds]
    if random.random() < invents:
        boxes.append(np.array([100, 70, 120, 95], np.float32))
    return Detections.of(boxes, [0.9] * len(boxes), ["person"] * len(boxes))
