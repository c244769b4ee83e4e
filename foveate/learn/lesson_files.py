"""The lessons of an attempt, apart from the store, which goes on changing while a training runs."""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from edge_agent.lessons.container import LessonError, header_of
from edge_agent.lessons.lesson import Lesson
from edge_agent.lessons.store import SUFFIX, LessonStore
from foveate.learn.folders import replace_file
from foveate.learn.split import MOST_LEARNED, Split, split
from pipeline.policies.lesson_marks import Mark
from pipeline.policies.lesson_quota import evictions
from pipeline.timing import rfc3339

PARTS_FILE = "parts.json"
LEAST_OF_A_CLASS = 20
"""Objects of a class that lessons must know for it to be learned where the camera names no classes."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What the two parts of the lessons hold: ``labels`` by the number of objects, the teacher and span (RFC 3339,
    empty where there are none) of those that are learned from, and when those begin that judge.
    """

    lessons: int
    learned: int
    judged: int
    learned_labels: dict[str, int]
    judged_labels: dict[str, int]
    teacher: str = ""
    learned_from: str = ""
    learned_to: str = ""
    judged_from: str = ""


@dataclass(frozen=True, slots=True)
class LessonFiles:
    """The folders ``learned`` and ``judged`` of an attempt, which a restart finds as they were. Everything blocks."""

    folder: Path

    @property
    def learned(self) -> Path:
        return self.folder / "learned"

    @property
    def judged(self) -> Path:
        return self.folder / "judged"

    def part(self, store: Path, changed_at_s: float | None = None) -> Parts:
        """Part the lessons of a store, or find them parted by an earlier start. Raises OSError.

        ``changed_at_s`` is as in an ``AttemptOrder``.
        """
        try:
            return msgspec.json.decode((self.folder / PARTS_FILE).read_bytes(), type=Parts)
        except (OSError, msgspec.MsgspecError):
            pass
        marks = read_marks(store)
        found = split_since(marks, changed_at_s)
        for target, part in ((self.learned, found.learned), (self.judged, found.judged)):
            _link(store, part, target)
        ends = [
            header_of((self.learned / mark.name).read_bytes()) for mark in (*found.learned[:1], *found.learned[-1:])
        ]
        judging = [header_of((self.judged / mark.name).read_bytes()) for mark in found.judged[:1]]
        parts = Parts(
            lessons=len(marks),
            learned=len(found.learned),
            judged=len(found.judged),
            learned_labels=_labels(found.learned),
            judged_labels=_labels(found.judged),
            teacher=ends[-1].teacher if ends else "",
            learned_from=rfc3339(ends[0].taken_at) if ends else "",
            learned_to=rfc3339(ends[-1].taken_at) if ends else "",
            judged_from=rfc3339(judging[0].taken_at) if judging else "",
        )
        replace_file(self.folder / PARTS_FILE, msgspec.json.encode(parts))
        return parts

    def read_judged(self) -> list[Lesson]:
        """The lessons that judge, oldest first."""
        return LessonStore(self.judged).read()


def split_since(marks: Sequence[Mark], changed_at_s: float | None) -> Split:
    """Split lessons; where the scene has changed, the newest of those that show it as it is judge, and never others.

    Lessons of what it was only teach. Otherwise the little there is of the new scene would judge what never saw it,
    among many lessons that a model of the old scene knows well.
    """
    if changed_at_s is None:
        return split(marks)
    found = split([mark for mark in marks if mark.taken_at_s >= changed_at_s])
    before = [mark for mark in marks if mark.taken_at_s < changed_at_s]
    room = max(MOST_LEARNED - len(found.learned), 0)
    spare = {one.name for one in evictions([replace(mark, size_bytes=1) for mark in before], room)}
    kept = sorted((mark for mark in before if mark.name not in spare), key=lambda mark: (mark.taken_at_s, mark.name))
    return Split((*kept, *found.learned), found.judged)


def read_marks(store: Path) -> list[Mark]:
    """What the files of a store hold, without their pictures; damaged ones are left out."""
    marks = []
    for file in sorted(store.glob(f"*{SUFFIX}")):
        try:
            data = file.read_bytes()
            marks.append(header_of(data).mark(file.name, len(data)))
        except (OSError, LessonError):  # evicted meanwhile, or damaged
            continue
    return marks


def wanted_labels(known: dict[str, int], objects: Sequence[str]) -> tuple[str, ...]:
    """The classes to learn: those that the camera reports and, where it names none, those the lessons know well."""
    return tuple(objects) or tuple(sorted(label for label, number in known.items() if number >= LEAST_OF_A_CLASS))


def _labels(marks: Sequence[Mark]) -> dict[str, int]:
    return dict(Counter(spot.label for mark in marks for spot in mark.spots))


def _link(store: Path, marks: Sequence[Mark], target: Path) -> None:
    """Give files a second name, or copy them where the file system has no links; what is gone is left out."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for mark in marks:
        try:
            os.link(store / mark.name, target / mark.name)
        except FileNotFoundError:
            continue
        except OSError:
            shutil.copy2(store / mark.name, target / mark.name)
