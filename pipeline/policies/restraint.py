"""What is turned down while a latency budget is breached, step by step. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

CROP_FACTOR, LEAST_CROP_FACTOR = 0.8, 0.5
LAMBDA_STEP, MOST_LAMBDA_STEPS = 0.2, 4
"""One look in five stays with the cloud: without any, nobody would notice that it is fast again."""


class Action(StrEnum):
    """What a breach can trigger."""

    LOWER_SAMPLE_RATE = "lower_sample_rate"  # half as many frames are analysed, down to a floor
    SHRINK_CROPS = "shrink_crops"  # what is sent is smaller by a factor of 0.8, down to 0.5
    RAISE_LAMBDA = "raise_lambda"  # 0.2 more of the analysed frames are answered at the edge, up to 0.8
    LIGHT_MODEL = "light_model"  # the lighter small model looks, where there is one


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an action, taken for a segment."""

    segment: str
    action: Action


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a camera can be turned down: from its own rate to the least, and whether it has a lighter model."""

    sample_fps: float
    least_sample_fps: float
    light_model: bool


@dataclass(frozen=True, slots=True)
class Restraint:
    """What the steps taken come to. The neutral values change nothing."""

    sample_fps_most: float | None = None
    crop_scale_factor: float = 1.0
    lambda_least: float = 0.0
    light_model: bool = False


def has_room(action: Action, steps: Sequence[Step], limits: Limits) -> bool:
    """Whether one more step of an action would change anything."""
    taken = _count(action, steps)
    match action:
        case Action.LOWER_SAMPLE_RATE:
            return limits.sample_fps * 0.5**taken > limits.least_sample_fps
        case Action.SHRINK_CROPS:
            return CROP_FACTOR**taken > LEAST_CROP_FACTOR
        case Action.RAISE_LAMBDA:
            return taken < MOST_LAMBDA_STEPS
        case Action.LIGHT_MODEL:
            return limits.light_model and taken == 0


def restraint(steps: Sequence[Step], limits: Limits) -> Restraint:
    """What is turned down after these steps, whichever segments they were taken for."""
    halvings = _count(Action.LOWER_SAMPLE_RATE, steps)
    return Restraint(
        sample_fps_most=max(limits.least_sample_fps, limits.sample_fps * 0.5**halvings) if halvings else None,
        crop_scale_factor=max(LEAST_CROP_FACTOR, CROP_FACTOR ** _count(Action.SHRINK_CROPS, steps)),
        lambda_least=round(min(MOST_LAMBDA_STEPS, _count(Action.RAISE_LAMBDA, steps)) * LAMBDA_STEP, 6),
        light_model=_count(Action.LIGHT_MODEL, steps) > 0,
    )


def in_words(action: Action, now: Restraint) -> str:
    """What an action comes to, for people."""
    match action:
        case Action.LOWER_SAMPLE_RATE:
            return f"at most {now.sample_fps_most:.3g} frames per second are analysed"
        case Action.SHRINK_CROPS:
            return f"crops are sent at {now.crop_scale_factor:.2g} of their scale"
        case Action.RAISE_LAMBDA:
            return f"at least {now.lambda_least:.0%} of the analysed frames are answered at the edge"
        case Action.LIGHT_MODEL:
            return "the lighter model looks"


def _count(action: Action, steps: Sequence[Step]) -> int:
    return sum(step.action is action for step in steps)
