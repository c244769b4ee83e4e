"""Whether a model that was trained for a camera may take the place of another one: judged on what neither has seen.

Not being worse is shown, never assumed: the lower bound of the difference in F1, from a paired bootstrap over blocks of
time, must stay above the margin (a test of non-inferiority: Wellek, "Testing Statistical Hypotheses of Equivalence and
Noninferiority", 2010, chapter 2). What cannot be judged is refused as what is worse is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """F1 of one class at the agent's threshold, and how many objects of it there were to find."""

    f1: float
    objects: int


@dataclass(frozen=True, slots=True)
class JudgedFigures:
    """What one model did on the judged lessons.

    ``f1`` at the threshold that the agent uses and ``best_f1`` at the model's own best one. ``ece`` is the expected
    calibration error of its scores, ``overconfidence`` the part of it by which they say too much, ``blind_share`` the
    share of the pictures with objects in which it found none, ``median_ms`` the time of a whole look on one thread.
    """

    model: str
    f1: float
    best_f1: float
    ece: float
    blind_share: float
    median_ms: float
    classes: Mapping[str, ClassFigures] = field(default_factory=dict)
    overconfidence: float = 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """F1 of the trained model less that of a rival, and the lower bound of it; NaN where nothing bounds it."""

    value: float
    low: float


@dataclass(frozen=True, slots=True)
class Rivalry:
    """A model whose place is wanted, and how far the trained one is from it, at the agent's threshold and at best."""

    rival: JudgedFigures
    at_threshold: Difference
    at_best: Difference


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a judgement stands on: pictures, those of them with objects, objects, and blocks of time."""

    pictures: int
    with_objects: int
    objects: int
    blocks: int


@dataclass(frozen=True, slots=True)
class AcceptanceSettings:
    """Limits. Losses and gains are in F1, times as multiples of the rival's, the rest as shares.

    ``most_loss`` is for the difference itself, ``margin`` for its lower bound. A class of at least ``class_objects`` to
    find may lose ``class_loss``, one of at least ``few_objects``, which says less, ``few_loss`` of the rival's F1: few
    objects count for nothing among many of another class, and still somebody looks for them. A model is worth a change
    that is better by ``least_gain`` or takes no more than ``faster`` of the time; one slower than ``slower`` must be
    better for sure, by ``slower_gain``, and is never slower than ``slowest``.
    """

    least_with_objects: int = 12
    least_objects: int = 24
    least_blocks: int = 8
    most_loss: float = 0.01
    margin: float = 0.02
    class_objects: int = 20
    class_loss: float = 0.05
    few_objects: int = 5
    few_loss: float = 0.5
    blind_more: float = 0.03
    overconfidence_free: float = 0.10
    overconfidence_more: float = 0.05
    least_gain: float = 0.01
    faster: float = 0.8
    slower: float = 1.1
    slower_gain: float = 0.03
    slowest: float = 2.0


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The decision, with every reason for it: what speaks against the model, or what it brings."""

    accepted: bool
    reasons: tuple[str, ...]


def accept(
    trained: JudgedFigures, rivals: Sequence[Rivalry], grounds: Grounds, settings: AcceptanceSettings | None = None
) -> Acceptance:
    """Decide on a trained model against every model whose place it would take. Raises ValueError without a rival."""
    if not rivals:
        raise ValueError("a model is judged against at least one other")
    limits = settings or AcceptanceSettings()
    against = _too_little(grounds, limits)
    if not against:
        for one in rivals:
            against += _worse(trained, one, limits)
            against += _slower(trained, one, limits)
            against += _not_worth_it(trained, one, limits)
    if against:
        return Acceptance(accepted=False, reasons=tuple(dict.fromkeys(against)))
    return Acceptance(accepted=True, reasons=tuple(_brings(trained, one) for one in rivals))


def _too_little(grounds: Grounds, limits: AcceptanceSettings) -> list[str]:
    least = {
        "pictures with objects": (grounds.with_objects, limits.least_with_objects),
        "objects to find": (grounds.objects, limits.least_objects),
        "blocks of time": (grounds.blocks, limits.least_blocks),
    }
    missing = [f"{have} {what} of {need}" for what, (have, need) in least.items() if have < need]
    return [f"the newest part cannot judge it: {', '.join(missing)}"] if missing else []


def _worse(trained: JudgedFigures, one: Rivalry, limits: AcceptanceSettings) -> list[str]:
    rival, found = one.rival, []
    for where, difference, mine, its in (
        ("at the agent's threshold", one.at_threshold, trained.f1, rival.f1),
        ("at its best threshold", one.at_best, trained.best_f1, rival.best_f1),
    ):
        # Written so that NaN, which nothing compares with, counts as worse.
        if not difference.value >= -limits.most_loss:
            found.append(f"its F1 {where} is {mine:.3f}, that of {rival.model} {its:.3f}")
        elif not difference.low >= -limits.margin:
            low = "unknown" if math.isnan(difference.low) else f"{difference.low:+.3f}"
            found.append(
                f"it is not sure to be as good as {rival.model} {where}: F1 {difference.value:+.3f}, "
                f"lower bound {low}, which may be no less than {-limits.margin:+.3f}"
            )
    for label, its_class in rival.classes.items():
        mine_class = trained.classes.get(label, ClassFigures(0.0, its_class.objects))
        if its_class.objects >= limits.few_objects and not mine_class.f1 >= _least_f1(its_class, limits):
            found.append(f"its F1 of {label} is {mine_class.f1:.3f}, that of {rival.model} {its_class.f1:.3f}")
    if not trained.blind_share <= rival.blind_share + limits.blind_more:
        found.append(
            f"it finds nothing in {trained.blind_share:.1%} of the pictures with objects, "
            f"{rival.model} in {rival.blind_share:.1%}"
        )
    # One that says too little is caught at the agent's threshold, if it matters.
    if not trained.overconfidence <= max(limits.overconfidence_free, rival.overconfidence + limits.overconfidence_more):
        found.append(
            f"its scores say {trained.overconfidence:.3f} too much on average, those of {rival.model} "
            f"{rival.overconfidence:.3f}"
        )
    return found


def _least_f1(rival: ClassFigures, limits: AcceptanceSettings) -> float:
    """What a model must at least reach of a class that was seen often, or at least a few times."""
    if rival.objects >= limits.class_objects:
        return rival.f1 - limits.class_loss
    return rival.f1 * (1 - limits.few_loss)


def _slower(trained: JudgedFigures, one: Rivalry, limits: AcceptanceSettings) -> list[str]:
    ratio = _time_ratio(trained, one.rival)
    surely_better = one.at_best.low > 0 and one.at_best.value >= limits.slower_gain
    if ratio <= limits.slower or (surely_better and ratio <= limits.slowest):
        return []
    times = f"{trained.median_ms:.1f} ms for a look, {one.rival.model} {one.rival.median_ms:.1f} ms"
    return [f"it takes {times}, and is not surely so much better"]


def _not_worth_it(trained: JudgedFigures, one: Rivalry, limits: AcceptanceSettings) -> list[str]:
    better = max(one.at_threshold.value, one.at_best.value) >= limits.least_gain
    if better or _time_ratio(trained, one.rival) <= limits.faster:
        return []
    return [f"it is neither better nor faster than {one.rival.model}"]


def _brings(trained: JudgedFigures, one: Rivalry) -> str:
    return (
        f"F1 {trained.f1:.3f} against {one.rival.f1:.3f} of {one.rival.model} "
        f"(lower bound of the difference {one.at_threshold.low:+.3f}), "
        f"{trained.median_ms:.1f} ms for a look against {one.rival.median_ms:.1f} ms"
    )


def _time_ratio(trained: JudgedFigures, rival: JudgedFigures) -> float:
    return trained.median_ms / rival.median_ms if rival.median_ms > 0 else math.inf
