"""Which camera learns next, and why the others wait: one training at a time, most to win first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.policies.enough import Enough, LessonSummary, enough


@dataclass(frozen=True, slots=True)
class LastTry:
    """A camera's last training: when it ended (seconds of wall time), with how many lessons, and how.

    ``faulty`` is one that broke down, which says nothing about the lessons. ``since_drift`` is how many lessons there
    were since a drift that it was to meet.
    """

    at_s: float
    lessons: int
    accepted: bool
    faulty: bool = False
    since_drift: int = 0


@dataclass(frozen=True, slots=True)
class Learner:
    """What is known of a camera that learns.

    ``missing`` says what its lessons lack, and is empty where they are enough. ``drifted_at_s`` is when its model was
    taken back for drift, with no model accepted since, and ``since_drift`` how many lessons are newer. ``in_use`` is
    whether a model of its own looks, ``on_trial`` whether one is being proven. ``to_win`` ranks cameras: boxes per
    second that a better model could put right.
    """

    camera: str
    lessons: int
    missing: str = ""
    last: LastTry | None = None
    drifted_at_s: float | None = None
    since_drift: int = 0
    in_use: bool = False
    on_trial: bool = False
    to_win: float = 0.0


@dataclass(frozen=True, slots=True)
class LearnersSettings:
    """Nothing is learned from fewer than ``least_lessons``, a part of which must judge.

    A camera learns again after ``again_after_s``, or when its lessons are ``growth`` times those of the last time;
    after a breakdown, which is tried again, after ``fault_pause_s``. After drift ``least_since_drift`` lessons of what
    is seen now are waited for, and where they were not enough for a model, ``growth`` times as many.
    """

    least_lessons: int = 120
    again_after_s: float = 86_400.0
    growth: float = 2.0
    fault_pause_s: float = 900.0
    least_since_drift: int = 60


@dataclass(frozen=True, slots=True)
class Next:
    """The camera that is to learn now (None: none), why, and for each other one what it waits for."""

    camera: str | None
    reason: str
    waiting: dict[str, str]


def enough_to_learn(summary: LessonSummary) -> Enough:
    """Which way the lessons are enough for.

    A class that has never been seen in a second place, a parked car, say, is learned too, and is the same however
    often it is seen: it decides nothing where others do.
    """
    moving = {label: seen for label, seen in summary.labels.items() if seen.places > 1}
    return enough(replace(summary, labels=moving) if moving else summary)


def next_learner(learners: Sequence[Learner], now_s: float, settings: LearnersSettings) -> Next:
    """Choose: what has drifted first, then what has most to win; names settle what is equal."""
    why: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for learner in learners:
        reason, waits = _due(learner, now_s, settings)
        if reason:
            why[learner.camera] = reason
        else:
            waiting[learner.camera] = waits
    due = [learner for learner in learners if learner.camera in why]
    if not due:
        return Next(None, "", waiting)
    first = min(due, key=lambda one: (one.drifted_at_s is None, -one.to_win, one.camera))
    waiting |= {one.camera: f"{first.camera} learns first" for one in due if one is not first}
    return Next(first.camera, why[first.camera], waiting)


def _due(learner: Learner, now_s: float, settings: LearnersSettings) -> tuple[str, str]:
    """Why a camera is to learn now, or else what it waits for."""
    last = learner.last
    if waits := _held_back(learner, now_s, settings):
        return "", waits
    drifted_at_s = learner.drifted_at_s
    met = last is not None and not last.faulty and drifted_at_s is not None and last.at_s >= drifted_at_s
    since_drift = round(settings.growth * last.since_drift) if met and last is not None else 0
    if drifted_at_s is not None and learner.since_drift >= since_drift:
        return "its model has stopped being right", ""
    if last is None:
        return f"its {learner.lessons} lessons are enough for a first model", ""
    if last.faulty:
        return "its last training broke down", ""
    if learner.lessons >= settings.growth * last.lessons:
        return f"its lessons have grown from {last.lessons} to {learner.lessons}", ""
    left_s = settings.again_after_s - (now_s - last.at_s)
    if left_s <= 0:
        return f"its last training is {_span(now_s - last.at_s)} old", ""
    what = "its last model was taken back" if last.accepted else "its last model was refused"
    what = "its model is in use" if learner.in_use else what
    more = f"{round(settings.growth * last.lessons)} lessons (now {learner.lessons})"
    if met:
        more = f"{since_drift} lessons since one stopped being right (now {learner.since_drift})"
    return "", f"{what}; it learns again with {more}, or in {_span(left_s)}"


def _held_back(learner: Learner, now_s: float, settings: LearnersSettings) -> str:
    """What a camera must wait for in any case; empty for nothing."""
    last = learner.last
    if learner.on_trial:
        return "its newest model is being proven"
    if learner.missing:
        return learner.missing
    if learner.lessons < settings.least_lessons:
        return f"{learner.lessons} lessons of {settings.least_lessons}, a part of which must judge"
    if last is not None and last.faulty and now_s - last.at_s < settings.fault_pause_s:
        left_s = settings.fault_pause_s - (now_s - last.at_s)
        return f"its last training broke down; it is tried again in {_span(left_s)}"
    if learner.drifted_at_s is not None and learner.since_drift < settings.least_since_drift:
        return f"{learner.since_drift} lessons of {settings.least_since_drift} since its model stopped being right"
    return ""


def _span(seconds: float) -> str:
    """A time in words, in the unit that suits it."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
