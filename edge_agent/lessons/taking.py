"""Which frames of a camera become lessons, and what is kept of them until they can be annotated. No I/O of its own."""

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, replace
from pathlib import Path

from edge_agent.lessons.labels import CleaningSettings
from edge_agent.lessons.settings import LessonSettings
from edge_agent.lessons.store import LessonStore, Overview
from edge_agent.region_of_interest import RegionOfInterest
from edge_agent.settings import CameraSettings
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey, Image
from pipeline.geometry import BoxArray, Size

LESSON_EPOCH = 2
"""No run's: a worker answers each key once, and in the queue for the uplink a look for lessons gives way."""
MOST_FRAMES = 4
"""Frames that wait to be made small; the oldest gives way."""
MOST_OPEN_BYTES = 16_000_000
"""Of small pictures that wait for their annotation; the oldest give way."""
_MOST_ANSWERS = 64
SETTLED_S = 0.5
"""After the last look that an annotation depends on, its answer is here."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """An analysed frame, and what was seen of it: motion (m, 4) in frame pixels; ``edge`` is the model's name@version,
    ``scene_s`` the frame's time for tracking.
    """

    frame: Frame
    region: RegionOfInterest
    motion: BoxArray
    scene_s: float
    edge: str


@dataclass(frozen=True, slots=True, eq=False)
class Open:
    """A frame that is to become a lesson, made small. ``captured_at_s`` is monotonic."""

    key: FrameKey
    captured_at_s: float
    scene_s: float
    picture: Image
    size: Size
    region: RegionOfInterest
    motion: BoxArray
    edge: str


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """The larger model's answer to a whole frame, in frame pixels, with what it is unsure of; ``teacher`` is its
    name@version.
    """

    found: Detections
    teacher: str


class Taking:
    """What one camera takes in for its lessons; used on the event loop alone.

    ``wake`` says that there is something to do, ``to_ask`` is the newest frame that the larger model might be asked
    about for the sake of lessons, which ``may_ask`` tells of.
    """

    def __init__(self, settings: LessonSettings, store: LessonStore, sure_score: float) -> None:
        self.settings, self.store = settings, store
        self.cleaning: CleaningSettings = replace(settings.cleaning, sure_score=sure_score)
        self.wake, self.may_ask = asyncio.Event(), asyncio.Event()
        self.to_ask: Moment | None = None
        self.overview = Overview()
        self.teacher = ""
        self.counters: Counter[str] = Counter()
        """Frames that became no lesson, by why: ``displaced``, ``forgotten``, ``unclear``."""
        self._frames: deque[Moment] = deque()
        self._open: deque[Open] = deque()
        self._answers: OrderedDict[FrameKey, Taught] = OrderedDict()
        self._asked: dict[FrameKey, FrameKey] = {}
        self._newest_s = self._last_s = float("-inf")

    def decided(self, moment: Moment, kind: str) -> None:
        """A frame was analysed, and the larger model is asked about it (``kind`` frame or mosaic), or not (none)."""
        scene_s = moment.scene_s
        if scene_s < self._newest_s:  # a file begins anew, and its tracks with it
            self._drop(self._open, len(self._open), "forgotten")
            self._last_s = float("-inf")
        self._newest_s = scene_s
        if kind == "frame" or scene_s - self._last_s >= self.settings.least_apart_s:
            self.want(moment)
            if kind != "frame":
                self.to_ask = moment
                self.may_ask.set()
        self.wake.set()

    def want(self, moment: Moment) -> None:
        """Make a lesson of this frame, if its annotation becomes clear."""
        self._last_s = moment.scene_s
        self._frames.append(moment)
        self._drop(self._frames, len(self._frames) - MOST_FRAMES, "displaced")

    def next_frame(self) -> Moment | None:
        """The next frame that is to be made small."""
        return self._frames.popleft() if self._frames else None

    def opened(self, lesson: Open) -> None:
        """A frame was made small, and waits for its annotation."""
        self._open.append(lesson)
        most = MOST_OPEN_BYTES // max(1, lesson.picture.nbytes)
        self._drop(self._open, len(self._open) - max(1, most), "displaced")

    def next_finished(self) -> tuple[Open, Taught | None] | None:
        """Take out a frame whose annotation depends on nothing more to come, with the larger model's answer to it."""
        wait_s = self.cleaning.reach_s + SETTLED_S
        if not self._open or self._open[0].scene_s > self._newest_s - wait_s:
            return None
        lesson = self._open.popleft()
        return lesson, self._answers.pop(lesson.key, None)

    def asked(self, key: FrameKey, about: FrameKey) -> None:
        """The larger model is asked about a frame for the sake of lessons, under a ``key`` of the question's own."""
        self._asked = {key: about}

    def about(self, key: FrameKey) -> FrameKey | None:
        """The frame that a question for the sake of lessons is about; None for others."""
        return self._asked.get(key)

    def answered(self, key: FrameKey, taught: Taught) -> None:
        """The larger model has looked at this whole frame."""
        self.teacher = taught.teacher
        self._answers[key] = taught
        while len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)

    def _drop(self, waiting: "deque[Moment] | deque[Open]", count: int, why: str) -> None:
        for _ in range(count):
            waiting.popleft()
            self.counters[why] += 1


def new_taking(settings: CameraSettings, folder: Path | None, sure_score: float, *, stills: bool) -> Taking | None:
    """What a camera takes in, its lessons in a folder of its own below ``folder``; None where it does not learn.

    Pictures that have nothing to do with one another have no tracks, which tell what is known of a frame.
    """
    lessons = settings.lessons
    if not lessons.enabled or folder is None or stills:
        return None
    store = LessonStore(folder / settings.name, lessons.most_bytes, lessons.privacy)
    return Taking(lessons, store, sure_score)
