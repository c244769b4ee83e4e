"""Whether the lessons of a camera are enough for a model of its own, and for which way to one.

What counts is how many different objects were seen, in how many places and for how long, not how many pictures there
are of them. Where objects are nearly always in view they come again and again, and few of them tell what is to come;
where the scene is mostly empty, each is seen for a moment and the next one is another. The limits lie between three
recordings with known outcomes (docs/decisions/019-what-becomes-a-lesson.md).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from pipeline.policies.lesson_marks import Condition, Mark

MOST_GAP_S = 180.0
"""Between two lessons; what is longer was not watched. A still scene is kept several times in it."""
FEWEST_LOOKS = 2
"""Lessons that an object must be in to count as one: what is seen once may be a mistake."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the lessons have of one class: ``objects`` in all pictures, distinct ``tracks``, ``places`` of the picture
    that they were in, and the seconds that all of them were in view, added up.
    """

    objects: int
    tracks: int
    places: int
    seen_s: float


@dataclass(frozen=True, slots=True)
class LessonSummary:
    """The lessons of a camera in numbers. ``watched_s`` is the time that they cover, ``span_s`` that from the first to
    the last, ``hours`` the hours of the day that they are from; times of the first and the last are Unix seconds.
    """

    lessons: int = 0
    size_bytes: int = 0
    empty: int = 0
    first_s: float | None = None
    last_s: float | None = None
    watched_s: float = 0.0
    hours: tuple[int, ...] = ()
    labels: Mapping[str, Seen] = field(default_factory=dict)
    conditions: Mapping[Condition, int] = field(default_factory=dict)

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last lesson."""
        return 0.0 if self.first_s is None or self.last_s is None else self.last_s - self.first_s


@dataclass(frozen=True, slots=True)
class EnoughSettings:
    """What a class must have been seen, for each way.

    A network of the camera's own takes ``own_tracks`` objects, in ``own_places`` places, in view for ``own_seen_s``
    together; in a scene where on average at least ``busy`` of them are in view, ``own_tracks_busy`` are enough.
    Adapting the general model takes ``adapt_tracks`` in view for ``adapt_seen_s``. ``day_hours`` hours cover a day
    well; they forbid nothing. A class with less than ``side_share`` of all objects is a sideline: it is learned too,
    and decides nothing.
    """

    own_tracks: int = 30
    own_tracks_busy: int = 3
    busy: float = 0.8
    own_places: int = 4
    own_seen_s: float = 25.0
    adapt_tracks: int = 3
    adapt_seen_s: float = 5.0
    day_hours: int = 6
    side_share: float = 0.1


@dataclass(frozen=True, slots=True)
class Enough:
    """Which way the lessons are enough for, ``wait`` for none, and why in a sentence; ``missing`` is what the next
    better way lacks.
    """

    way: Literal["own", "adapt", "wait"]
    reason: str
    missing: tuple[str, ...] = ()


def summarise(marks: Iterable[Mark]) -> LessonSummary:
    """Count what lessons hold."""
    ordered = sorted(marks, key=lambda mark: mark.taken_at_s)
    if not ordered:
        return LessonSummary()
    times = [mark.taken_at_s for mark in ordered]
    conditions: dict[Condition, int] = {}
    for mark in ordered:
        conditions[mark.condition] = conditions.get(mark.condition, 0) + 1
    labels = sorted({spot.label for mark in ordered for spot in mark.spots})
    return LessonSummary(
        lessons=len(ordered),
        size_bytes=sum(mark.size_bytes for mark in ordered),
        empty=sum(not mark.spots for mark in ordered),
        first_s=times[0],
        last_s=times[-1],
        watched_s=sum(b - a for a, b in pairwise(times) if b - a <= MOST_GAP_S),
        hours=tuple(sorted({mark.condition.hour for mark in ordered})),
        labels={label: _seen(label, ordered) for label in labels},
        conditions=conditions,
    )


def _seen(label: str, ordered: list[Mark]) -> Seen:
    times: dict[int, list[float]] = {}
    places: set[tuple[int, int]] = set()
    objects = 0
    for mark in ordered:
        for spot in mark.spots:
            if spot.label == label:
                objects += 1
                places.add(spot.place)
                times.setdefault(spot.track, []).append(mark.taken_at_s)
    tracks = [seen for track, seen in times.items() if track >= 0 and len(seen) >= FEWEST_LOOKS]
    return Seen(objects, len(tracks), len(places), sum(seen[-1] - seen[0] for seen in tracks))


def enough(summary: LessonSummary, settings: EnoughSettings = EnoughSettings()) -> Enough:
    """The way to a model that the lessons are enough for, by the weakest of the camera's main classes."""
    total = sum(seen.objects for seen in summary.labels.values())
    main = {name: seen for name, seen in summary.labels.items() if seen.objects >= settings.side_share * total}
    if not main:
        return Enough("wait", f"no object has been seen in {_count(summary.lessons, 'lesson')}.", ("an object",))
    lacking = [text for name, seen in main.items() for text in _lacks_adapt(name, seen, settings)]
    if lacking:
        return Enough("wait", f"too little for any model: {', '.join(lacking)}.", tuple(lacking))
    lacking = [text for name, seen in main.items() for text in _lacks_own(name, seen, summary.watched_s, settings)]
    hours = f"from {_count(len(summary.hours), 'hour')} of {settings.day_hours} that cover a day"
    if lacking:
        return Enough("adapt", f"too little for a network of its own: {', '.join(lacking)}; {hours}.", tuple(lacking))
    kinds = ", ".join(
        f"{_count(seen.tracks, 'track')} of {name} in {seen.places} places" for name, seen in main.items()
    )
    return Enough("own", f"{kinds}; {hours}.")


def _lacks_adapt(label: str, seen: Seen, settings: EnoughSettings) -> list[str]:
    return [
        *_short(seen.tracks, settings.adapt_tracks, f"distinct tracks of {label}"),
        *_short(seen.seen_s, settings.adapt_seen_s, f"seconds with {label} in view"),
    ]


def _lacks_own(label: str, seen: Seen, watched_s: float, settings: EnoughSettings) -> list[str]:
    busy = seen.seen_s >= settings.busy * watched_s
    return [
        *_short(seen.tracks, settings.own_tracks_busy if busy else settings.own_tracks, f"distinct tracks of {label}"),
        *_short(seen.places, settings.own_places, f"places with {label}"),
        *_short(seen.seen_s, settings.own_seen_s, f"seconds with {label} in view"),
    ]


def _short(have: float, wanted: float, what: str) -> list[str]:
    return [] if have >= wanted else [f"{int(have)} {what} of {wanted:g}"]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
