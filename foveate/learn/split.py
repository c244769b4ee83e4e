"""Which lessons teach and which judge: by time, never by frame, since neighbouring frames are nearly the same. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from edge_agent.lessons.lesson import Lesson

JUDGED_SHARE = 0.25
MOST_JUDGED_SHARE = 0.5
"""Where the newest quarter holds too few objects, more is kept back, up to so much."""
LEAST_WITH_OBJECTS = 40
GAP = timedelta(seconds=1)
"""Lessons this shortly before the judged part are left out of both: they show nearly the same."""


@dataclass(frozen=True, slots=True)
class Split:
    """Lessons to learn from and lessons to judge by, each oldest first; ``judged`` are all newer."""

    learned: tuple[Lesson, ...]
    judged: tuple[Lesson, ...]


def split(lessons: Sequence[Lesson]) -> Split:
    """The newest quarter judges; more of it where that has too few pictures with objects."""
    ordered = sorted(lessons, key=lambda lesson: lesson.taken_at)
    total = len(ordered)
    least, most = round(total * JUDGED_SHARE), round(total * MOST_JUDGED_SHARE)
    with_objects = sum(len(lesson.known) > 0 for lesson in ordered[total - least :])
    count = least
    while count < most and with_objects < LEAST_WITH_OBJECTS:
        count += 1
        with_objects += len(ordered[total - count].known) > 0
    judged = ordered[total - count :]
    before = [lesson for lesson in ordered[: total - count] if judged and lesson.taken_at < judged[0].taken_at - GAP]
    return Split(tuple(before), tuple(judged))
