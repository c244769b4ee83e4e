"""Many rollouts by the real gate alone: how often a candidate is withdrawn that is no worse than the current model.

Frames and the larger model's answers are those of a real clip. *Identical* models see the same; *independent* ones have
errors of their own, of the same kinds and equally often: boxes missed, moved, scored otherwise, and seen where nothing
is. A *poisoned* teacher has one in ten of its own boxes wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from pipeline.detections import Detections
from pipeline.policies.comparison import Comparison, FrameScore, frame_score
from pipeline.policies.evidence import Evidence, Looks, RolloutSettings
from pipeline.policies.rollout import RolloutGate, Stage

VARIANTS = 6
"""Ways in which each frame may be seen wrongly; two models draw from them independently."""
MOST_COMPARISONS = 400
MISSED, FALSE, POISONED = 0.15, 0.15, 0.1
EVERY = 23
"""Frames of the clip between two comparisons: prime to its length, so that all are met."""


@dataclass(frozen=True, slots=True)
class Marks:
    """From which scores a box is published, and the larger model is sure."""

    publish_score: float
    sure_score: float


@dataclass(frozen=True, slots=True)
class Counted:
    """How trials ended; ``comparisons`` is the median of those that were decided."""

    trials: int
    withdrawn: int
    promoted: int
    comparisons: float

    @property
    def share_withdrawn(self) -> float:
        return self.withdrawn / self.trials


Scored = Sequence[Sequence[tuple[FrameScore, int]]]
"""For each frame the ways in which it may be seen, scored, with the number of objects that are surely there."""


Errors = Callable[[Detections, np.random.Generator], Detections]


def seen_wrongly(found: Detections, rng: np.random.Generator) -> Detections:
    """A look with errors of its own."""
    kept = found.select(rng.random(len(found)) >= MISSED)
    sides = np.tile(kept.xyxy[:, 2:] - kept.xyxy[:, :2], 2)
    moved = kept.xyxy + 0.03 * sides * rng.standard_normal(kept.xyxy.shape)
    score = np.clip(kept.score + 0.05 * rng.standard_normal(len(kept)), 0.05, 0.99)
    seen = Detections.of(moved, score, kept.label)
    if len(found) and rng.random() < FALSE:
        like = found.xyxy[rng.integers(len(found))] + np.tile(rng.uniform(-300, 300, 2), 2)
        seen = Detections.concat([seen, Detections.of([like], [rng.uniform(0.4, 0.7)], [str(found.label[0])])])
    return seen


def worse(found: Detections, rng: np.random.Generator) -> Detections:
    """A look that misses every fourth object."""
    return found.select(rng.random(len(found)) >= 0.25)


def poisoned(teacher: Detections, rng: np.random.Generator) -> Detections:
    """A teacher one in ten of whose boxes is missing, elsewhere, or of another class."""
    wrong, kind = rng.random(len(teacher)) < POISONED, rng.integers(3, size=len(teacher))
    moved = teacher.xyxy + np.where((wrong & (kind == 1))[:, None], 80.0, 0.0)
    label = np.where(wrong & (kind == 2), "something else", teacher.label)
    return Detections.of(moved, teacher.score, label).select(~(wrong & (kind == 0)))


def scored(
    looks: Sequence[Detections], teacher: Sequence[Detections], marks: Marks, errors: Errors | None, seed: int
) -> Scored:
    """Score each frame's looks once: the look itself, or ``VARIANTS`` with errors of their own."""
    rng = np.random.default_rng(seed)
    table = []
    for look, sure in zip(looks, teacher, strict=True):
        ways = [look] if errors is None else [errors(look, rng) for _ in range(VARIANTS)]
        objects = int((sure.score >= marks.sure_score).sum())
        table.append([(frame_score(way, sure, marks.publish_score, marks.sure_score), objects) for way in ways])
    return table


def trials(
    candidate: Scored, current: Scored, times_ms: Sequence[float], count: int, settings: RolloutSettings
) -> Counted:
    """Roll a candidate out so many times, from another frame each time, both with times of their own."""
    ends = [_trial(candidate, current, times_ms, Random(seed), settings) for seed in range(count)]
    decided = [after for stage, after in ends if stage is not Stage.SHADOW]
    return Counted(
        count,
        sum(stage is Stage.WITHDRAWN for stage, _ in ends),
        sum(stage is Stage.FULL for stage, _ in ends),
        float(np.median(decided)) if decided else float("nan"),
    )


def _trial(
    candidate: Scored, current: Scored, times_ms: Sequence[float], rng: Random, settings: RolloutSettings
) -> tuple[Stage, int]:
    """Where one rollout ends, and after how many comparisons; ``SHADOW`` where it is not decided."""
    gate, evidence, stage = RolloutGate(settings), Evidence(), Stage.SHADOW
    first = rng.randrange(len(current))
    for number in range(1, MOST_COMPARISONS + 1):
        frame = (first + number * EVERY) % len(current)
        mine, objects = rng.choice(candidate[frame])
        its, _ = rng.choice(current[frame])
        looks = Looks(rng.choice(times_ms), rng.choice(times_ms), 180.0, mine.missed_all, its.missed_all)
        evidence = evidence.looked(looks, 1.0, settings).compared(Comparison(mine, its, objects), settings)
        evidence = replace(evidence, served=evidence.comparisons)  # a canary answers meanwhile
        stage = gate.decide(stage, evidence, 1.0).stage
        if stage in (Stage.FULL, Stage.WITHDRAWN):
            return stage, number
    return Stage.SHADOW, MOST_COMPARISONS
