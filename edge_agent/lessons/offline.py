"""Lessons from a recording on which the larger model has looked at every frame, or at every k-th."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from edge_agent.frame_work import wanted
from edge_agent.lessons.labels import Annotation, clean
from edge_agent.lessons.lesson import Lesson
from edge_agent.lessons.picture import conditions, into_picture, lasting, not_counted, shrink
from edge_agent.region_of_interest import RegionOfInterest, bind
from edge_agent.settings import CameraSettings
from edge_agent.tracking.history import Entry, Tracker
from edge_agent.tracking.tracks import Observations, Verdict
from pipeline.detections import Detections, Source
from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    """A frame whose annotation waits for what comes after it."""

    seq: int
    at_s: float
    picture: Image
    size: Size
    answer: Detections
    outside: BoxArray


def lessons_from(
    frames: Iterable[tuple[float, Image]],
    detections: Sequence[Detections],
    settings: CameraSettings,
    *,
    teacher: str,
    edge: str,
    began: datetime,
) -> Iterator[Lesson]:
    """The lesson of each frame, in order, by the cleaning and the tracker of a live camera.

    ``frames`` are seconds from ``began`` and pictures (height, width, 3) uint8 BGR, all of one size; row i of
    ``detections`` is all that the larger model saw on frame i, in frame pixels, from ``faint_score`` on. ``teacher``
    and ``edge`` are name@version, ``began`` is wall time with the site's zone. The camera's objects, region of
    interest and masks hold. Raises RegionError where the region does not fit.
    """
    replay = _Replay(settings)
    for seq, ((at_s, image), found) in enumerate(zip(frames, detections, strict=True)):
        replay.add(seq, at_s, image, found)
        for done, annotation in replay.finished(at_s - settings.lessons.cleaning.reach_s):
            yield _lesson(done, annotation, replay.region, settings.name, (teacher, edge), began)
    for done, annotation in replay.finished(float("inf")):
        yield _lesson(done, annotation, replay.region, settings.name, (teacher, edge), began)


class _Replay:
    """The tracker over the frames, and the frames that are not finished."""

    def __init__(self, settings: CameraSettings) -> None:
        self._settings, self._cleaning = settings, settings.lessons.cleaning
        # Corrected at once, a step must outlast the time before and after its frame.
        self._tracker = Tracker(settings.tracker, history_s=float("inf"))
        self._entries: deque[Entry] = deque()
        self._open: deque[_Open] = deque()
        self.region: RegionOfInterest

    def add(self, seq: int, at_s: float, image: Image, found: Detections) -> None:
        """Take a frame in, later than all before."""
        settings, size = self._settings, Size(image.shape[1], image.shape[0])
        if seq == 0:
            self.region = bind(settings.roi, settings.masks, size)
        answer = wanted(found, settings, self.region)
        answer = Detections.of(answer.xyxy, answer.score, answer.label, Source.CLOUD)
        whole = np.array([[0, 0, size.width, size.height]], np.float32)
        sure = answer.select(answer.score >= self._cleaning.sure_score)
        seen = Observations(sure, np.full(len(sure), Verdict.CONFIRMED, np.int8), whole)
        self._tracker.observe(seq, at_s, Detections.none(), looked=False)
        self._tracker.correct(seq, seen)
        entry = self._tracker.entry(seq)
        if entry is None:
            raise RuntimeError(f"frame {seq} that was just observed is not remembered")
        self._entries.append(entry)
        picture = shrink(image, self.region.window, settings.lessons)
        outside = not_counted(wanted(found, settings, None), answer)
        self._open.append(_Open(seq, at_s, picture, size, answer, outside))

    def finished(self, until_s: float) -> Iterator[tuple[_Open, Annotation]]:
        """Take out the frames up to a moment, with their annotations."""
        while self._open and self._open[0].at_s <= until_s:
            done = self._open.popleft()
            while self._entries[0].at_s < done.at_s - self._cleaning.reach_s:
                self._entries.popleft()
            at = next(entry for entry in self._entries if entry.seq == done.seq)
            annotation = clean(at, list(self._entries), done.answer, done.size, self._cleaning)
            yield done, Annotation(annotation.known, np.concatenate([annotation.ignored, done.outside]))


def _lesson(
    done: _Open, annotation: Annotation, region: RegionOfInterest, camera: str, models: tuple[str, str], began: datetime
) -> Lesson:
    height, width = done.picture.shape[:2]
    annotation = into_picture(annotation, region.window, Size(width, height))
    taken_at = began + timedelta(seconds=done.at_s)
    return Lesson(
        camera=camera,
        taken_at=taken_at,
        picture=done.picture,
        window=Size(region.window.width, region.window.height),
        known=lasting(annotation.known, int(began.timestamp())),
        ignored=annotation.ignored,
        teacher=models[0],
        edge=models[1],
        conditions=conditions(done.picture, taken_at.hour),
    )
