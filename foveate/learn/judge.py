"""Judges a trained model on the newest lessons, which it has never seen, beside those whose place it would take."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from edge_agent.lessons.lesson import Lesson
from foveate.learn import scores
from foveate.learn.scores import Matched
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.policies.acceptance import (
    Acceptance,
    AcceptanceSettings,
    Grounds,
    JudgedFigures,
    Rivalry,
    accept,
)
from pipeline.timing import Clock, cpu_s

LEAST_SCORE = 0.1
"""Detections below it are not asked for: the tracker has no use for them."""
TIMED_LOOKS = 50


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision on one trained model, and the figures that it stands on."""

    acceptance: Acceptance
    trained: JudgedFigures
    rivals: tuple[Rivalry, ...]
    grounds: Grounds


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What one model found, frame by frame, and how long each look took."""

    model: str
    frames: tuple[Matched, ...]
    times_ms: tuple[float, ...]


class CpuClock:
    """What this process has worked: on a busy machine it tells how long a look takes, where time itself does not."""

    def now_s(self) -> float:
        return cpu_s()


class Judge:
    """Looks at each judged lesson with every model in turn.

    ``labels`` are the classes that count, ``threshold`` is the score from which the agent publishes a detection. A look
    takes as long as ``clock`` says, which is to be the process's own where others are busy beside it.
    """

    def __init__(self, judged: Sequence[Lesson], labels: Sequence[str], threshold: float, clock: Clock) -> None:
        self._judged, self._labels, self._threshold, self._clock = tuple(judged), tuple(labels), threshold, clock

    def judge(
        self, builds: Sequence[Detector], rivals: Sequence[Detector], settings: AcceptanceSettings | None = None
    ) -> list[Judgement]:
        """Decide of each build of a trained model whether it may take the place of all ``rivals``.

        Blocks for as long as their looks take.
        """
        seen = self._look([*builds, *rivals])
        return [self._judgement(mine, seen[len(builds) :], settings) for mine in seen[: len(builds)]]

    def _judgement(self, mine: _Seen, others: Sequence[_Seen], settings: AcceptanceSettings | None) -> Judgement:
        figures = self._figures(mine)
        rivals = tuple(self._rivalry(mine, other) for other in others)
        return Judgement(accept(figures, rivals, self.grounds, settings), figures, rivals, self.grounds)

    @property
    def grounds(self) -> Grounds:
        """What the judgement stands on."""
        objects = [int(np.isin(lesson.known.label, self._labels).sum()) for lesson in self._judged]
        with_objects = sum(count > 0 for count in objects)
        return Grounds(len(self._judged), with_objects, sum(objects), scores.block_count(len(self._judged)))

    def _look(self, models: Sequence[Detector]) -> list[_Seen]:
        frames: list[list[Matched]] = [[] for _ in models]
        for lesson in self._judged:
            for model, matched in zip(models, frames, strict=True):
                found: Detections = model.detect([lesson.picture], LEAST_SCORE)[0]
                matched.append(scores.matched(found, lesson, self._labels))
        times_ms = self._times_ms(models)
        return [
            _Seen(f"{model.name}@{model.version}", tuple(matched), tuple(times))
            for model, matched, times in zip(models, frames, times_ms, strict=True)
        ]

    def _times_ms(self, models: Sequence[Detector]) -> list[list[float]]:
        """Times of looks at pictures as large as the camera's, since making them smaller is a part of a look."""
        times_ms: list[list[float]] = [[] for _ in models]
        for lesson in self._judged[:: max(1, len(self._judged) // TIMED_LOOKS)]:
            picture = np.asarray(cv2.resize(lesson.picture, (lesson.window.width, lesson.window.height)), np.uint8)
            for model, times in zip(models, times_ms, strict=True):
                begin_s = self._clock.now_s()
                model.detect([picture], LEAST_SCORE)
                times.append((self._clock.now_s() - begin_s) * 1000)
        return times_ms

    def _figures(self, seen: _Seen) -> JudgedFigures:
        frames = seen.frames
        return JudgedFigures(
            model=seen.model,
            f1=scores.pooled_f1(frames, self._threshold),
            best_f1=scores.pooled_f1(frames, scores.best_threshold(frames)),
            ece=scores.calibration_error(frames),
            overconfidence=scores.overconfidence(frames),
            blind_share=scores.blind_share(frames, self._threshold),
            median_ms=statistics.median(seen.times_ms) if seen.times_ms else 0.0,
            classes=scores.classes(frames, self._threshold),
        )

    def _rivalry(self, mine: _Seen, other: _Seen) -> Rivalry:
        thresholds = (
            (self._threshold, self._threshold),
            tuple(scores.best_threshold(seen.frames) for seen in (mine, other)),
        )
        at_threshold, at_best = (
            scores.difference(scores.counts(mine.frames, first), scores.counts(other.frames, second))
            for first, second in thresholds
        )
        return Rivalry(self._figures(other), at_threshold, at_best)
