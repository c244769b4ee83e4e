"""How near lessons are to the truth, beside the larger model's single looks that they are made of.

``python -m foveate.bench.lesson_labels CLIP TRUTH LABEL FPS`` prints it for every frame looked at and for fewer, and
which way to a model the lessons of the first 60 % are enough for; TRUTH is in MOT format, or ``-``.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from edge_agent.capture.settings import CaptureSettings
from edge_agent.lessons.marks import summary_of
from edge_agent.lessons.offline import lessons_from
from edge_agent.lessons.settings import LessonSettings
from edge_agent.settings import CameraSettings
from foveate.bench.reference import LARGE, detections, frames
from foveate.models.scoring import Truth, read_mot, score
from pipeline.detections import Detections
from pipeline.geometry import Size, coverage
from pipeline.metrics.matching import Score
from pipeline.policies.enough import enough

SURE = LessonSettings().cleaning.sure_score
EVERY = (1, 2, 3, 5)
LEARNED_SHARE = 0.6
_BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Nearness:
    """Scores against the truth: of single looks, of what lessons know, and of that where they claim to know."""

    single: Score
    known: Score
    claimed: Score


def compare(looks: Mapping[float, Detections], truths: Sequence[Truth], size: Size, label: str) -> Nearness:
    """Hold lessons against the truth: ``looks`` are the larger model's, by seconds; ``truths`` are in their order."""
    whole = LessonSettings(picture_width_px=size.width, picture_height_px=size.height)
    blank = np.zeros((size.height, size.width, 3), np.uint8)
    lessons = lessons_from(
        ((at_s, blank) for at_s in looks),
        list(looks.values()),
        CameraSettings("clip", CaptureSettings(""), objects=frozenset({label}), lessons=whole),
        teacher="",
        edge="",
        began=_BEGAN,
    )
    single, known, claimed = Score(), Score(), Score()
    for lesson, look, true in zip(lessons, looks.values(), truths, strict=True):
        single += score(look.select((look.score >= SURE) & (look.label == label)), true)
        known += score(lesson.known, true)
        left_open = coverage(true.xyxy, lesson.ignored).max(axis=1, initial=0.0) >= 0.5
        claimed += score(lesson.known, replace(true, ignored=true.ignored | left_open))
    return Nearness(single, known, claimed)


def main() -> None:
    """Print the figures of a clip."""
    clip, gt, label, fps = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
    found = detections(clip, LARGE)
    first = next(iter(frames(clip)))
    nothing = Truth(np.empty((0, 4), np.float32), np.empty(0, np.str_), np.empty(0, bool))
    truth = {} if gt == "-" else read_mot(Path(gt), label)
    for every in EVERY if truth else ():
        numbers = range(0, len(found), every)
        looks = {number / fps: found[number] for number in numbers}
        made = compare(looks, [truth.get(n + 1, nothing) for n in numbers], Size(first.shape[1], first.shape[0]), label)
        print(f"every {every}: " + "; ".join(f"{name} {_text(of)}" for name, of in _rows(made)))
    camera = CameraSettings("clip", CaptureSettings(""), objects=frozenset({label}))
    count = round(len(found) * LEARNED_SHARE)
    early = ((number / fps, image) for number, image in zip(range(count), frames(clip), strict=False))
    summary = summary_of(lessons_from(early, found[:count], camera, teacher="", edge="", began=_BEGAN))
    print(f"{summary.labels} in {summary.watched_s:.1f} s: {enough(summary)}")


def _rows(made: Nearness) -> list[tuple[str, Score]]:
    return [("single looks", made.single), ("known", made.known), ("where claimed", made.claimed)]


def _text(of: Score) -> str:
    return f"P {of.precision:.3f} R {of.recall:.3f} F1 {of.f1:.3f}"


if __name__ == "__main__":
    main()
