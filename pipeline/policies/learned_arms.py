"""How crops are drawn, learned while a camera runs: cheaper where that loses next to nothing, one step at a time.

Now and then the places of a frame that has gone whole are shown once more as crops, drawn by the current arm or by one
a step away in padding, scale or quality. The look at the whole frame is the reference for all of them, so that no step
is compared with the last one and small losses cannot add up; what an arm takes is measured against the first arm on
the same places. Profiles of a camera drift (Jiang et al., Chameleon, SIGCOMM 2018, section 3, who profile anew from
time to time the few best ones); here old evidence fades.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.metrics.matching import Score
from pipeline.policies.crop_arms import PADDINGS, QUALITIES, SCALES, CropArm, arm_as_dict, arm_from_dict

BOUND = 0.01
"""So much agreement with the look at the whole frame may be lost against the first arm, and against the current one."""
NEEDED = 0.03
"""Dearer crops must agree more by this. What agrees more by less was not closer to the truth."""
CHEAPER = 0.95
"""What is no cheaper than this part is not worth a change."""
LEAST_LOOKS = 20.0
_SURE = 2.0
"""In standard deviations: how sure a change must be."""
_HALF_LIFE_TRIALS = 2_000.0
_FORGOTTEN_LOOKS = 0.5
_MOST_ARMS = 100
"""In a file: more than the grid has, with a first arm beside it."""
_FIELDS = ("right", "wrong", "missed", "size", "looks")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What trials have shown of an arm; older ones count less.

    ``right``, ``wrong`` and ``missed`` boxes against looks at whole frames; ``size`` is the sum over ``looks`` of what
    its pictures took, in multiples of what the first arm takes for the same places.
    """

    right: float = 0.0
    wrong: float = 0.0
    missed: float = 0.0
    size: float = 0.0
    looks: float = 0.0

    def add(self, score: Score, size: float) -> "Evidence":
        """The evidence after one more look."""
        return Evidence(
            self.right + score.true_positives,
            self.wrong + score.false_positives,
            self.missed + score.false_negatives,
            self.size + size,
            self.looks + 1.0,
        )

    def faded(self, kept: float) -> "Evidence":
        """The evidence when all of it counts ``kept`` as much."""
        return Evidence(*(kept * getattr(self, name) for name in _FIELDS))

    @property
    def _boxes(self) -> float:
        return self.right + (self.wrong + self.missed) / 2

    @property
    def agreement(self) -> float:
        """The expected F1: the mean of a Beta distribution that began uniform."""
        return (self.right + 1.0) / (self._boxes + 2.0)

    @property
    def variance(self) -> float:
        """Of the agreement, as far as so many boxes tell."""
        return self.agreement * (1.0 - self.agreement) / (self._boxes + 3.0)

    @property
    def mean_size(self) -> float:
        """In multiples of what the first arm takes."""
        return self.size / self.looks if self.looks else 1.0


def _clear_gain(arm: Evidence, other: Evidence) -> float:
    """By how much ``arm`` surely agrees more than ``other``: the difference less its margin of error."""
    if arm is other:
        return 0.0
    return arm.agreement - other.agreement - _SURE * math.sqrt(arm.variance + other.variance)


@dataclass(frozen=True, slots=True)
class LearnedArms:
    """The arm in use, ``current``, and what is known of it and of others. ``first`` is the configured one."""

    first: CropArm
    current: CropArm
    known: Mapping[CropArm, Evidence] = field(default_factory=dict)

    @classmethod
    def beginning(cls, first: CropArm) -> "LearnedArms":
        """Before anything was tried."""
        return cls(first, first)

    @property
    def next_trial(self) -> CropArm:
        """The arm of which least is known: the current one, one beside it, or the first one."""
        looks = {arm: self.known.get(arm, Evidence()).looks for arm in self._around()}
        return min(looks, key=lambda arm: looks[arm])

    def learn(self, arm: CropArm, score: Score, size: float) -> "LearnedArms":
        """After a trial of ``arm``: how it agreed with the look at the whole frame, and its ``size`` in multiples of
        what the first arm takes.
        """
        kept = 0.5 ** (1 / _HALF_LIFE_TRIALS)
        known = {a: faded for a, e in self.known.items() if (faded := e.faded(kept)).looks >= _FORGOTTEN_LOOKS}
        known[arm] = known.get(arm, Evidence()).add(score, size)
        return replace(self, known=known, current=self._choice(known))

    def _around(self) -> tuple[CropArm, ...]:
        return tuple(dict.fromkeys((self.current, *neighbours(self.current), self.first)))

    def _choice(self, known: Mapping[CropArm, Evidence]) -> CropArm:
        """The cheapest arm around that surely agrees nearly as well; else one that surely agrees much more."""
        tried = {arm: e for arm in self._around() if (e := known.get(arm, Evidence())).looks >= LEAST_LOOKS}
        now, first = tried.get(self.current), tried.get(self.first)
        if now is None or first is None:
            return self.current
        good = [arm for arm, e in tried.items() if min(_clear_gain(e, first), _clear_gain(e, now)) >= -BOUND]
        cheaper = [arm for arm in good if tried[arm].mean_size <= CHEAPER * now.mean_size]
        if cheaper:
            return min(cheaper, key=lambda arm: tried[arm].mean_size)
        better = [arm for arm, e in tried.items() if _clear_gain(e, now) >= NEEDED]
        return max(better, key=lambda arm: tried[arm].agreement, default=self.current)

    def as_dict(self) -> dict[str, Any]:
        """What was learned as plain values, for JSON."""
        return {
            "first": arm_as_dict(self.first),
            "current": arm_as_dict(self.current),
            "known": [arm_as_dict(a) | {name: getattr(e, name) for name in _FIELDS} for a, e in self.known.items()],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "LearnedArms":
        """What ``as_dict`` gave. Raises ValueError where it is something else."""
        try:
            first, current, rows = values["first"], values["current"], list(values["known"])
            known = {arm_from_dict(row): Evidence(*(float(row[name]) for name in _FIELDS)) for row in rows}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its crops are none that were learned ({error!r})") from error
        sound = all(0 <= getattr(e, name) < math.inf for e in known.values() for name in _FIELDS)
        if not sound or len(known) > _MOST_ARMS:
            raise ValueError("its crops have numbers that cannot be")
        return cls(arm_from_dict(first), arm_from_dict(current), known)


def neighbours(arm: CropArm) -> tuple[CropArm, ...]:
    """The arms one step away in padding, scale or quality."""
    return (
        *(replace(arm, padding=value) for value in _beside(arm.padding, PADDINGS)),
        *(replace(arm, scale=value) for value in _beside(arm.scale, SCALES)),
        *(replace(arm, quality=round(value)) for value in _beside(arm.quality, QUALITIES)),
    )


def _beside(value: float, steps: tuple[float, ...]) -> list[float]:
    """The next lower and the next higher one of the steps."""
    lower, higher = [s for s in steps if s < value], [s for s in steps if s > value]
    return [*lower[-1:], *higher[:1]]
