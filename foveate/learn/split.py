"""Which lessons teach and which judge: by time, never by frame, since neighbouring frames are nearly the same. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.policies.lesson_marks import Mark
from pipeline.policies.lesson_quota import evictions

JUDGED_SHARE = 0.2
MOST_JUDGED_SHARE = 0.5
"""Where the newest fifth holds too few objects, more is kept back, up to so much."""
LEAST_WITH_OBJECTS = 40
MOST_JUDGED, MOST_LEARNED = 500, 4000
"""More pictures tell little more, and all of them are held in memory."""
GAP_S = 1.0
"""Lessons this shortly before the judged part are left out of both: they show nearly the same."""


@dataclass(frozen=True, slots=True)
class Split:
    """Lessons to learn from and lessons to judge by, each oldest first; ``judged`` are all newer."""

    learned: tuple[Mark, ...]
    judged: tuple[Mark, ...]


def split(marks: Sequence[Mark]) -> Split:
    """The newest fifth judges; more of it where that has too few pictures with objects.

    Of more lessons than can be learned from, those go that the store would give up first.
    """
    ordered = sorted(marks, key=lambda mark: (mark.taken_at_s, mark.name))
    total = len(ordered)
    least, most = (min(MOST_JUDGED, round(total * share)) for share in (JUDGED_SHARE, MOST_JUDGED_SHARE))
    count, with_objects = least, sum(bool(mark.spots) for mark in ordered[total - least :])
    while count < most and with_objects < LEAST_WITH_OBJECTS:
        count += 1
        with_objects += bool(ordered[total - count].spots)
    judged = ordered[total - count :]
    before = [mark for mark in ordered[: total - count] if judged and mark.taken_at_s < judged[0].taken_at_s - GAP_S]
    return Split(tuple(_thinned(before)), tuple(judged))


def _thinned(marks: list[Mark]) -> list[Mark]:
    counted = [Mark(m.name, m.taken_at_s, 1, m.condition, m.spots, m.look) for m in marks]
    spare = {eviction.name for eviction in evictions(counted, MOST_LEARNED)}
    return [mark for mark in marks if mark.name not in spare]
