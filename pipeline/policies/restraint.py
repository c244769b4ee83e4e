"""What is turned down while a latency budget is breached, step by step. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

CROP_FACTOR, LEAST_CROP_FACTOR = 0.8, 0.5
LAMBDA_STEP, MOST_LAMBDA_STEPS = 0.2, 4
"""One look in five stays with the cloud: without any, nobody would notice that it is fast again."""


class Action(StrEnum):
    """What a breach can trigger."""

    LOWER_SAMPLE_RATE = "lower_sample_rate"  # about half as many frames are analysed, down to a floor
    SHRINK_CROPS = "shrink_crops"  # what is sent is smaller by a factor of 0.8, down to 0.5
    RAISE_LAMBDA = "raise_lambda"  # 0.2 more of the analysed frames are answered at the edge, up to 0.8
    LIGHT_MODEL = "light_model"  # the lighter small model looks, where there is one


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an action, taken for a segment; ``to_fps`` is what it lowers the sample rate to."""

    segment: str
    action: Action
    to_fps: float = math.inf


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a camera can be turned down: from its own rate to the least, and whether it has a lighter model.

    ``analysed_fps`` is how many frames per second are analysed now, which may be fewer than ``sample_fps`` allows.
    """

    sample_fps: float
    least_sample_fps: float
    light_model: bool
    analysed_fps: float = math.inf


@dataclass(frozen=True, slots=True)
class Restraint:
    """What the steps taken come to. The neutral values change nothing."""

    sample_fps_most: float | None = None
    crop_scale_factor: float = 1.0
    lambda_least: float = 0.0
    light_model: bool = False


def next_step(segment: str, action: Action, steps: Sequence[Step], limits: Limits) -> Step | None:
    """The next step of an action after these; None where it would change nothing."""
    taken = _count(action, steps)
    match action:
        case Action.LOWER_SAMPLE_RATE:
            return _slower(segment, steps, limits)
        case Action.SHRINK_CROPS:
            has_room = CROP_FACTOR**taken > LEAST_CROP_FACTOR
        case Action.RAISE_LAMBDA:
            has_room = taken < MOST_LAMBDA_STEPS
        case Action.LIGHT_MODEL:
            has_room = limits.light_model and taken == 0
    return Step(segment, action) if has_room else None


def _slower(segment: str, steps: Sequence[Step], limits: Limits) -> Step | None:
    """Half the rate, or the first half of a half that is below what is analysed now."""
    fps = min([limits.sample_fps, *(step.to_fps for step in steps)])
    if min(fps, limits.analysed_fps) <= limits.least_sample_fps:
        return None
    fps /= 2
    while fps >= limits.analysed_fps:
        fps /= 2
    return Step(segment, Action.LOWER_SAMPLE_RATE, max(fps, limits.least_sample_fps))


def restraint(steps: Sequence[Step]) -> Restraint:
    """What is turned down after these steps, whichever segments they were taken for."""
    fps = min((step.to_fps for step in steps), default=math.inf)
    return Restraint(
        sample_fps_most=fps if math.isfinite(fps) else None,
        crop_scale_factor=max(LEAST_CROP_FACTOR, CROP_FACTOR ** _count(Action.SHRINK_CROPS, steps)),
        lambda_least=round(min(MOST_LAMBDA_STEPS, _count(Action.RAISE_LAMBDA, steps)) * LAMBDA_STEP, 6),
        light_model=_count(Action.LIGHT_MODEL, steps) > 0,
    )


def in_words(action: Action, now: Restraint) -> str:
    """What an action comes to, for people."""
    match action:
        case Action.LOWER_SAMPLE_RATE:
            one = now.sample_fps_most == 1.0
            return f"at most {now.sample_fps_most:.3g} frame{' per second is' if one else 's per second are'} analysed"
        case Action.SHRINK_CROPS:
            return f"crops are sent at {now.crop_scale_factor:.2g} of their scale"
        case Action.RAISE_LAMBDA:
            return f"at least {now.lambda_least:.0%} of the analysed frames are answered at the edge"
        case Action.LIGHT_MODEL:
            return "the lighter model looks"


def _count(action: Action, steps: Sequence[Step]) -> int:
    return sum(step.action is action for step in steps)
