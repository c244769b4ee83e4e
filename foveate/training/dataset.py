"""Lessons as what a student takes in: pictures of one size, what is known of them, and how often each is shown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_agent.lessons.lesson import Lesson
from foveate.training.targets import Answers
from pipeline.detectors.contract import HeightWidth
from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size, iou

MOST_PICTURE_BYTES = 512 * 1024 * 1024
"""Pictures are kept in memory; of more than fit, evenly spread ones are taken."""
JUDGED_SHARE = 0.1
LEAST_RECURRENCE = 0.05
"""Doubt that recurs at one place in at least this share of the lessons belongs to the scene,"""
MOST_KNOWN_THERE = 1.0
"""unless an object is known there at least this often, as a share of the doubts: what stays is mostly known, and who
passes is seldom at one place.
"""
SAME_IOU = 0.5
MOST_COMPARED = 400
"""Pictures that places are compared with."""
MOST_EMPTY_SHARE = 0.5
"""Pictures without any object are shown at most this often."""
MOST_BOOST = 4.0
"""A picture with an object of a rare class is shown at most so many times as often."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """n lessons, oldest first: ``pictures`` (n, height, width, 3) uint8 BGR, and what is known of each in pixels."""

    pictures: NDArray[np.uint8]
    answers: tuple[Answers, ...]

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def input_px(self) -> HeightWidth:
        """(height, width) of the pictures."""
        return self.pictures.shape[1], self.pictures.shape[2]

    def at(self, index: int) -> tuple[Image, Answers]:
        """One picture and what is known of it."""
        return self.pictures[index], self.answers[index]

    def counts(self, classes: int) -> NDArray[np.int64]:
        """Objects of each class (classes,)."""
        ids = [answers.class_id for answers in self.answers]
        return np.bincount(np.concatenate([*ids, np.empty(0, np.intp)]).astype(np.intp), minlength=classes)


def split_by_time(lessons: Sequence[Lesson]) -> tuple[list[Lesson], list[Lesson]]:
    """Lessons to learn from, and the newest ones, which judge and are never learned from."""
    ordered = sorted(lessons, key=lambda lesson: lesson.taken_at)
    count = max(1, round(len(ordered) * JUDGED_SHARE)) if len(ordered) > 1 else 0
    return ordered[: len(ordered) - count], ordered[len(ordered) - count :]


def prepare(lessons: Sequence[Lesson], labels: Sequence[str], input_px: HeightWidth) -> Samples:
    """Samples at (height, width); objects of other labels are left out."""
    height, width = input_px
    most = max(1, MOST_PICTURE_BYTES // (height * width * 3))
    if len(lessons) > most:
        lessons = [lessons[index] for index in np.linspace(0, len(lessons) - 1, most).astype(int)]
    pictures = np.empty((len(lessons), height, width, 3), np.uint8)
    for slot, lesson in zip(pictures, lessons, strict=True):
        slot[...] = resized(lesson.picture, Size(width, height))
    return Samples(pictures, settled([_answers(lesson, labels, Size(width, height)) for lesson in lessons]))


def settled(answers: Sequence[Answers]) -> tuple[Answers, ...]:
    """The same without the ignored regions that come back at one place again and again, where an object is known
    less often: what the larger model doubts there is a part of the scene, and would never be learned to be background.
    """
    chosen = np.unique(np.linspace(0, max(len(answers) - 1, 0), MOST_COMPARED).astype(int))[: len(answers)]
    doubted = _Places([answers[index].ignored for index in chosen])
    known = _Places([answers[index].xyxy for index in chosen])

    def is_scene(box: NDArray[np.float32]) -> bool:
        times = doubted.times(box)
        return times >= max(LEAST_RECURRENCE * len(chosen), 2) and known.times(box) < MOST_KNOWN_THERE * times

    return tuple(replace(each, ignored=each.ignored[[not is_scene(box) for box in each.ignored]]) for each in answers)


class _Places:
    """The boxes (n, 4) of several pictures, to ask in how many of these one is at some place."""

    def __init__(self, boxes: Sequence[BoxArray]) -> None:
        self._xyxy = np.concatenate([np.empty((0, 4), np.float32), *boxes])
        self._picture = np.repeat(np.arange(len(boxes)), [len(each) for each in boxes])

    def times(self, box: NDArray[np.float32]) -> int:
        """In how many pictures."""
        return len(np.unique(self._picture[iou(box[None], self._xyxy)[0] >= SAME_IOU]))


def resized(picture: Image, size: Size) -> Image:
    """A picture in another size, as the detector does it."""
    if picture.shape[:2] == (size.height, size.width):
        return picture
    return np.asarray(cv2.resize(picture, (size.width, size.height), interpolation=cv2.INTER_LINEAR), np.uint8)


def _answers(lesson: Lesson, labels: Sequence[str], size: Size) -> Answers:
    height, width = lesson.picture.shape[:2]
    scale = np.array([size.width / width, size.height / height] * 2, np.float32)
    wanted = np.isin(lesson.known.label, labels)
    class_id = np.array([labels.index(label) for label in lesson.known.label[wanted]], np.intp)
    return Answers(lesson.known.xyxy[wanted] * scale, class_id, lesson.ignored.reshape(-1, 4) * scale)


def class_weights(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """How much each class counts (classes,): the rarer the more, as the root of its share, within limits."""
    seen = np.maximum(counts, 1)
    return np.asarray(np.clip(np.sqrt(seen.max() / seen), 1, MOST_BOOST), np.float32)


def showing(samples: Samples, classes: int) -> NDArray[np.float64]:
    """The probability (n,) of showing each picture."""
    weights = class_weights(samples.counts(classes))
    share = np.array([weights[answers.class_id].max(initial=0) for answers in samples.answers], np.float64)
    empty = share == 0
    share[empty] = 1
    if 0 < empty.sum() < len(share):
        share[empty] *= min(1.0, MOST_EMPTY_SHARE / (1 - MOST_EMPTY_SHARE) * share[~empty].sum() / share[empty].sum())
    return np.asarray(share / share.sum())
