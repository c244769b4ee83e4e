"""Which lessons are worth their bytes: what is much the same is not kept twice, and no light or hour takes the room of
another.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.policies.lesson_marks import Condition, Content, Mark

SAME_EMPTY_S, SAME_S = 30.0, 5.0
"""After so long a scene that has not changed is kept once more: without objects, and with some, of which the larger
model is not equally sure each time.
"""
SAME_LEVELS = 6.0
"""Mean difference of two thumbnails, in grey levels, below which they look the same."""
MANY = 2000
"""Of fewer lessons than these the same is kept sooner again: a camera that has just begun is to have something to learn
from, and to be judged by.
"""
EMPTY_WEIGHT = 1.0
FULL_WEIGHT = 3.0
"""The shares of conditions without and with objects."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A lesson that is to go, and why."""

    name: str
    reason: str


def too_same(mark: Mark, kept: Iterable[Mark], count: int = MANY) -> str:
    """Why a lesson would add nothing to those kept lately, out of ``count``; empty where it does.

    The same objects at the same places, or none, in a picture that looks the same, add nothing for a while.
    """
    objects, patience = _layout(mark), min(1.0, count / MANY) ** 2
    for other in kept:
        since_s = abs(mark.taken_at_s - other.taken_at_s)
        if (
            since_s < (SAME_S if objects else SAME_EMPTY_S) * patience
            and objects == _layout(other)
            and _levels_apart(mark.look, other.look) <= SAME_LEVELS
        ):
            what = "the same objects at the same places" if objects else "the same empty scene"
            return f"{what} as {since_s:.0f} s before"
    return ""


def evictions(marks: Sequence[Mark], most_bytes: float) -> list[Eviction]:
    """The lessons that must go so that the others have at most ``most_bytes``; none where they fit.

    Room is shared out by max-min fairness: a condition that has less than its share keeps all, and the rest goes to
    the others. In a condition with more than its share those go first whose objects, places and sizes are the most
    common, and of equal ones the oldest.
    """
    if sum(mark.size_bytes for mark in marks) <= most_bytes:
        return []
    groups: dict[Condition, list[Mark]] = {}
    for mark in marks:
        groups.setdefault(mark.condition, []).append(mark)
    room = shares({condition: sum(m.size_bytes for m in group) for condition, group in groups.items()}, most_bytes)
    return [eviction for condition, group in sorted(groups.items()) for eviction in _cut(condition, group, room)]


def shares(wanted: Mapping[Condition, float], most_bytes: float) -> dict[Condition, float]:
    """The bytes of each condition: what it wants, or its share of what is left by those that want less.

    Max-min fairness with weights, filled from the least wanted share of a weight upwards.
    """
    left = max(0.0, most_bytes)
    weights = {condition: _weight(condition) for condition in wanted}
    total, out = sum(weights.values()), {}
    for condition in sorted(wanted, key=lambda c: (wanted[c] / weights[c], c)):
        out[condition] = min(wanted[condition], left * weights[condition] / total)
        left -= out[condition]
        total -= weights[condition]
    return out


def _weight(condition: Condition) -> float:
    return EMPTY_WEIGHT if condition.content is Content.EMPTY else FULL_WEIGHT


def _cut(condition: Condition, group: Sequence[Mark], room: Mapping[Condition, float]) -> Iterator[Eviction]:
    have = sum(mark.size_bytes for mark in group)
    common = Counter(feature for mark in group for feature in _features(mark))
    for mark in sorted(group, key=lambda m: (_rarity(m, common), m.taken_at_s, m.name)):
        if have <= room[condition]:
            return
        have -= mark.size_bytes
        yield Eviction(mark.name, f"there is more than its share of {condition}")


def _features(mark: Mark) -> set[Hashable]:
    """What a lesson can be rare in: its labels, their places and sizes, and how many objects there are."""
    spots = mark.spots
    labels: set[Hashable] = {("label", spot.label) for spot in spots}
    places: set[Hashable] = {("place", spot.label, *spot.place) for spot in spots}
    sizes: set[Hashable] = {("size", spot.label, spot.size) for spot in spots}
    return labels | places | sizes | {("objects", len(spots))}


def _rarity(mark: Mark, common: Mapping[Hashable, int]) -> float:
    """One over how often the rarest thing in a lesson occurs."""
    return 1.0 / min(common[feature] for feature in _features(mark))


def _layout(mark: Mark) -> list[tuple[str, int, int, int]]:
    return sorted((spot.label, spot.x, spot.y, spot.size) for spot in mark.spots)


def _levels_apart(a: bytes, b: bytes) -> float:
    """Mean difference of two thumbnails once both have the same mean: a cloud is no other scene."""
    if len(a) != len(b) or not a:
        return 255.0
    shift = (sum(a) - sum(b)) / len(a)
    return sum(abs(x - y - shift) for x, y in zip(a, b, strict=True)) / len(a)
