"""What is remembered of a lesson, and the lessons of a camera in numbers."""

from collections.abc import Iterable, Sequence

import cv2
import numpy as np

from edge_agent.lessons.lesson import Lesson
from pipeline.frames import Image
from pipeline.policies.enough import LessonSummary, summarise
from pipeline.policies.lesson_marks import GRID, Condition, Mark, Spot, content_of, light_of


def mark_of(lesson: Lesson, name: str = "", size_bytes: int = 0) -> Mark:
    """What is remembered of a lesson that has this name and size."""
    light = light_of(lesson.conditions.brightness, coloured=lesson.conditions.coloured)
    return Mark(
        name=name,
        taken_at_s=lesson.taken_at.timestamp(),
        size_bytes=size_bytes,
        condition=Condition(lesson.conditions.hour, light, content_of(len(lesson.known))),
        spots=_spots(lesson),
        look=_thumbnail(lesson.picture),
    )


def summary_of(lessons: Iterable[Lesson]) -> LessonSummary:
    """The lessons in numbers, as they would be in a store; of bytes nothing."""
    return summarise(mark_of(lesson) for lesson in lessons)


def _spots(lesson: Lesson) -> tuple[Spot, ...]:
    height, width = lesson.picture.shape[:2]
    known = lesson.known
    columns, rows = 2 * GRID[0], 2 * GRID[1]
    x = np.clip((known.xyxy[:, 0] + known.xyxy[:, 2]) / 2 / width * columns, 0, columns - 1).astype(int)
    y = np.clip((known.xyxy[:, 1] + known.xyxy[:, 3]) / 2 / height * rows, 0, rows - 1).astype(int)
    share = np.clip((known.xyxy[:, 3] - known.xyxy[:, 1]) / height, 1e-3, 1.0)
    size = np.floor(np.log2(share)).astype(int)
    rows_of: Sequence[tuple[str, int, int, int, int]] = list(
        zip(known.label.tolist(), x.tolist(), y.tolist(), size.tolist(), known.track_id.tolist(), strict=True)
    )
    return tuple(Spot(*row) for row in rows_of)


def _thumbnail(picture: Image) -> bytes:
    grey = cv2.cvtColor(cv2.resize(picture, GRID, interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2GRAY)
    return np.asarray(grey, np.uint8).tobytes()
