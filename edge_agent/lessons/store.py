"""The lessons of one camera on disk: a file each in a folder of their own, within a budget of bytes.

A file is written beside its place and then renamed; one that is damaged all the same is skipped and counted. What is
remembered of the lessons is kept in an index, so that thousands of them need not be opened at the start; what the
index does not know, as the power went, is read from the files.
"""

import logging
import threading
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from edge_agent.lessons.container import LessonError, decode, encode, header_of
from edge_agent.lessons.lesson import Lesson
from edge_agent.lessons.marks import mark_of
from edge_agent.lessons.settings import LessonSettings, Privacy
from pipeline.errors import ConfigError
from pipeline.policies.enough import LessonSummary, summarise
from pipeline.policies.lesson_marks import Mark
from pipeline.policies.lesson_quota import evictions, too_same

_log = logging.getLogger(__name__)
_DEFAULTS = LessonSettings()
SUFFIX, INDEX = ".lesson", "index"
SAVE_EVERY, SAVE_SHARE = 100, 0.1
"""Lessons between two writings of the index, or this share of all: it is written as a whole."""
_LATELY = 64
"""Lessons that a new one is compared with."""
_ROOM = 0.05
"""Of the budget is freed at once, so that not every lesson must be weighed against all others."""


@dataclass(frozen=True, slots=True)
class Added:
    """Whether a lesson was kept, and why not."""

    kept: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """The lessons at one moment: in numbers, and when they were taken, in Unix seconds, rising."""

    summary: LessonSummary = field(default_factory=LessonSummary)
    taken_at_s: tuple[float, ...] = ()

    def since(self, unix_s: float) -> int:
        """How many of them were taken after a moment."""
        return len(self.taken_at_s) - bisect_right(self.taken_at_s, unix_s)


class LessonStore:
    """The lessons in ``folder``. Nothing is read or written before the first use; every use blocks, and may come from
    any thread. One process writes, others may read.

    ``privacy`` is what lessons are taken under from now on. Where it is ``site`` they are for this machine alone: they
    are not read to be sent, nor are those that were taken under it before.
    """

    def __init__(
        self, folder: Path, most_bytes: int = _DEFAULTS.most_bytes, privacy: Privacy = _DEFAULTS.privacy
    ) -> None:
        self.folder, self._most_bytes, self._privacy = folder, most_bytes, privacy
        self._lock = threading.Lock()
        self._marks: dict[str, Mark] | None = None
        self._lately: deque[Mark] = deque(maxlen=_LATELY)
        self._unsaved, self._told = 0, False
        self.counters: Counter[str] = Counter()
        """``kept``, ``too_same``, ``evicted``, ``no_room``, ``damaged`` and ``unwritten`` lessons."""

    def add(self, lesson: Lesson) -> Added:
        """Keep a lesson, unless it adds nothing to those there or the disk does not take it. CPU and disk work."""
        with self._lock:
            marks = self._known()
            mark = mark_of(lesson, self._name(lesson, marks))
            same = too_same(mark, self._lately, len(marks))
            if same:
                self.counters["too_same"] += 1
                return Added(kept=False, reason=same)
            data = encode(lesson, mark, self._privacy)
            mark = replace(mark, size_bytes=len(data))
            try:
                return self._put(mark, data, marks)
            except OSError as error:
                self._tell(error)
                return Added(kept=False, reason=f"{self.folder} cannot be written ({error.strerror})")

    def read(self, most: int | None = None, *, to_send: bool = False) -> list[Lesson]:
        """The lessons, oldest first; ``most`` of them, chosen as if there were no room for more. CPU and disk work.

        ``to_send`` is for whoever will let them leave this machine. Raises PrivacyError where that is not allowed.
        """
        if to_send and self._privacy == "site":
            raise PrivacyError(
                f"The lessons in {self.folder} stay on this machine: set lessons.privacy of their camera to cloud"
                " to let those leave that are taken from then on."
            )
        with self._lock:
            marks = list(self._known().values())
        if most is not None:
            # The shares of conditions are no whole numbers, so that more may leave than must: down to none, of few.
            leaving = evictions([replace(mark, size_bytes=1) for mark in marks], most)
            spare = {eviction.name for eviction in leaving[: max(0, len(marks) - most)]}
            marks = [mark for mark in marks if mark.name not in spare]
        return list(self._read(sorted(marks, key=lambda mark: (mark.taken_at_s, mark.name)), to_send=to_send))

    def summary(self) -> LessonSummary:
        """The lessons in numbers."""
        with self._lock:
            marks = list(self._known().values())
        return summarise(marks)

    def overview(self) -> "Overview":
        """What is asked for most, as a value that is read without waiting for the disk."""
        with self._lock:
            marks = list(self._known().values())
        return Overview(summarise(marks), tuple(sorted(mark.taken_at_s for mark in marks)))

    def __len__(self) -> int:
        with self._lock:
            return len(self._known())

    def close(self) -> None:
        """Write the index; the store can be used on."""
        with self._lock:
            if self._marks is not None and self._unsaved:
                self._save(self._marks)

    def _read(self, marks: list[Mark], *, to_send: bool) -> Iterator[Lesson]:
        for mark in marks:
            try:
                lesson, header = decode((self.folder / mark.name).read_bytes())
            except FileNotFoundError:
                continue  # evicted meanwhile
            except (OSError, LessonError):
                self.counters["damaged"] += 1
                continue
            if header.privacy == "cloud" or not to_send:
                yield lesson

    def _name(self, lesson: Lesson, marks: dict[str, Mark]) -> str:
        moment_ms = round(lesson.taken_at.timestamp() * 1000)
        while f"{moment_ms:014d}{SUFFIX}" in marks:
            moment_ms += 1
        return f"{moment_ms:014d}{SUFFIX}"

    def _put(self, mark: Mark, data: bytes, marks: dict[str, Mark]) -> Added:
        """Write a lesson once there is room for it."""
        over = sum(m.size_bytes for m in marks.values()) + mark.size_bytes > self._most_bytes
        leaving = evictions([*marks.values(), mark], self._most_bytes * (1 - _ROOM)) if over else []
        why = {eviction.name: eviction.reason for eviction in leaving}
        for name in why.keys() & marks.keys():
            (self.folder / name).unlink(missing_ok=True)
            del marks[name]
            self.counters["evicted"] += 1
        if mark.name in why:
            self.counters["no_room"] += 1
            return Added(kept=False, reason=why[mark.name])
        self._write(mark.name, data)
        marks[mark.name] = mark
        self._lately.append(mark)
        self.counters["kept"] += 1
        self._unsaved += 1
        if self._unsaved >= max(SAVE_EVERY, SAVE_SHARE * len(marks)):
            self._save(marks)
        return Added(kept=True)

    def _write(self, name: str, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.folder / f"{name}.new"
        new.write_bytes(data)
        new.replace(self.folder / name)

    def _save(self, marks: dict[str, Mark]) -> None:
        try:
            self._write(INDEX, msgspec.msgpack.encode(list(marks.values())))
            self._unsaved = 0
        except OSError as error:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        self.counters["unwritten"] += 1
        if not self._told:
            self._told = True
            _log.warning("lessons are not kept: %s cannot be used (%s); see agent.state_dir.", self.folder, error)

    def _known(self) -> dict[str, Mark]:
        """The marks of all lessons by name; what the index lacks is read from the files, once."""
        if self._marks is None:
            indexed = self._indexed()
            found = {name: indexed.get(name) or self._opened(name) for name in self._names()}
            marks = {name: mark for name, mark in found.items() if mark is not None}
            self._unsaved = len(marks.keys() ^ indexed.keys())
            self._marks = marks
            self._lately.extend(list(marks.values())[-_LATELY:])
        return self._marks

    def _names(self) -> list[str]:
        try:
            return sorted(file.name for file in self.folder.glob(f"*{SUFFIX}")) if self.folder.is_dir() else []
        except OSError as error:  # no fault of the folder ever reaches a camera
            self._tell(error)
            return []

    def _indexed(self) -> dict[str, Mark]:
        try:
            marks = msgspec.msgpack.decode((self.folder / INDEX).read_bytes(), type=list[Mark])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):  # absent, or not what was written
            return {}
        return {mark.name: mark for mark in marks}

    def _opened(self, name: str) -> Mark | None:
        try:
            data = (self.folder / name).read_bytes()
            return header_of(data).mark(name, len(data))
        except FileNotFoundError:
            return None  # evicted meanwhile
        except (OSError, LessonError):
            self.counters["damaged"] += 1
            return None


class PrivacyError(ConfigError):
    """Lessons were asked for in order to be sent, and must not leave."""
