"""One step of the tracker: predict, associate in two rounds, correct, give birth, bury. Pure.

Association follows ByteTrack (Zhang et al. 2022, algorithm 1): confident boxes are matched first, then the uncertain
ones may keep a remaining track alive but never start one. Unlike it, an observation carries the larger model's
verdict, and a track remembers the last verdict: what the cloud has denied is followed but not published, what it has
confirmed survives a few frames in which the small model misses it.
"""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from edge_agent.tracking import kalman
from edge_agent.tracking.kalman import BoxFilter, Noise
from pipeline.detections import Detections
from pipeline.geometry import BoxArray, coverage, iou

LOOKED_AT_COVERAGE = 0.9
"""A box counts as looked at by the cloud when this share of it lies in one region that was sent."""


class Verdict(IntEnum):
    """What the larger model said of a box."""

    UNSEEN = 0
    CONFIRMED = 1
    DENIED = 2


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """Thresholds of the tracker.

    Scores in [0, 1]: ``high_score`` starts and keeps a track, ``low_score`` only keeps one, ``publish_score`` is
    needed to publish a track that the cloud has not confirmed. Durations in seconds: a track without observation is
    published for ``coast_s`` (``confirmed_coast_s`` after a confirmation) and forgotten after ``forget_s``; a verdict
    holds for ``verdict_s``.
    """

    high_score: float = 0.4
    low_score: float = 0.2
    publish_score: float = 0.4
    match_iou: float = 0.2
    low_match_iou: float = 0.3
    coast_s: float = 0.25
    confirmed_coast_s: float = 0.3
    forget_s: float = 1.5
    verdict_s: float = 2.0
    noise: Noise = field(default_factory=Noise)


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Boxes of one frame with the verdict (n,) of ``Verdict`` on each, and the regions (m, 4) the cloud looked at."""

    detections: Detections
    verdict: NDArray[np.int8]
    looked_at: BoxArray

    @classmethod
    def unseen(cls, detections: Detections) -> "Observations":
        """Boxes that the cloud has not looked at."""
        return cls(detections, np.zeros(len(detections), np.int8), np.empty((0, 4), np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class Tracks:
    """n tracks as a struct of arrays, all at the moment ``at_s``.

    ``ids`` (n,) int64, ``label`` (n,), ``score`` (n,) of the last observation, ``born_s``, ``seen_s`` and
    ``verdict_at_s`` (n,) monotonic seconds, ``hits`` (n,), ``verdict`` (n,) of ``Verdict``.
    """

    at_s: float
    boxes: BoxFilter
    ids: NDArray[np.int64]
    label: NDArray[np.str_]
    score: NDArray[np.float32]
    born_s: NDArray[np.float64]
    seen_s: NDArray[np.float64]
    hits: NDArray[np.int64]
    verdict: NDArray[np.int8]
    verdict_at_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def none(cls, at_s: float) -> "Tracks":
        zeros = np.empty(0)
        return cls(
            at_s,
            BoxFilter.none(),
            np.empty(0, np.int64),
            np.empty(0, np.str_),
            np.empty(0, np.float32),
            zeros,
            zeros,
            np.empty(0, np.int64),
            np.empty(0, np.int8),
            zeros,
        )

    def verdict_now(self, now_s: float, hold_s: float) -> NDArray[np.int8]:
        """Verdicts (n,), UNSEEN where the last one is older than ``hold_s``."""
        return np.where(now_s - self.verdict_at_s <= hold_s, self.verdict, _UNSEEN)


_UNSEEN, _CONFIRMED, _DENIED = (np.int8(v) for v in Verdict)
"""As numpy numbers, which compare with arrays several times faster than members of an enumeration."""


def predict(tracks: Tracks, now_s: float, settings: TrackerSettings) -> Tracks:
    """The tracks moved to ``now_s``."""
    return _replace(tracks, at_s=now_s, boxes=kalman.predict(tracks.boxes, now_s - tracks.at_s, settings.noise))


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Tracks after one frame, and per observation the id of its track (-1: none)."""

    tracks: Tracks
    track_of: NDArray[np.int64]


def step(tracks: Tracks, seen: Observations, now_s: float, next_id: int, settings: TrackerSettings) -> Step:
    """Take one frame's observations in. New tracks are numbered from ``next_id`` upwards."""
    moved = predict(tracks, now_s, settings)
    matched = _associate(moved, seen, settings)
    kept = _deny_absent(_correct(moved, seen, matched, now_s, settings), seen, now_s)
    track_of = np.full(len(matched), -1, np.int64)
    old = matched >= 0
    track_of[old] = kept.ids[matched[old]]
    # What the cloud has denied is remembered as a track too, so that it need not be asked about again at once.
    rows = np.flatnonzero(~old & ((seen.detections.score >= settings.high_score) | (seen.verdict != _UNSEEN)))
    alive = now_s - kept.seen_s <= settings.forget_s
    if not alive.all():
        kept = _select(kept, alive)
    if len(rows):
        track_of[rows] = np.arange(next_id, next_id + len(rows))
        kept = _join(kept, _give_birth(seen, rows, now_s, next_id, settings))
    return Step(kept, track_of)


def _associate(tracks: Tracks, seen: Observations, settings: TrackerSettings) -> NDArray[np.intp]:
    """Per observation (n,) the row of its track, or -1."""
    found = seen.detections
    matched = np.full(len(found), -1, dtype=np.intp)
    if not len(found) or not len(tracks):
        return matched
    overlap = iou(found.xyxy, tracks.boxes.xyxy) * (found.label[:, None] == tracks.label)
    high = (found.score >= settings.high_score) | (seen.verdict == _CONFIRMED)
    low = ~high & (found.score >= settings.low_score)
    free = np.ones(len(tracks), dtype=bool)
    # A confident box is never taken for clutter that was denied while the small model itself was not sure.
    clutter = (tracks.verdict == _DENIED) & (tracks.score < settings.high_score)
    for group, open_to, least in ((high, ~clutter, settings.match_iou), (low, free, settings.low_match_iou)):
        rows, columns = np.flatnonzero(group), np.flatnonzero(free & open_to)
        if not len(rows) or not len(columns):
            continue
        gain = overlap[rows[:, None], columns]
        r, c = linear_sum_assignment(gain, maximize=True)
        good = gain[r, c] >= least
        matched[rows[r[good]]] = columns[c[good]]
        free[columns[c[good]]] = False
    return matched


def _correct(
    tracks: Tracks, seen: Observations, matched: NDArray[np.intp], now_s: float, settings: TrackerSettings
) -> Tracks:
    rows = np.flatnonzero(matched >= 0)
    columns = matched[rows]
    if not len(rows):
        return tracks
    deviation = _deviation(seen, settings.noise)[rows]
    corrected = kalman.update(tracks.boxes.select(columns), seen.detections.xyxy[rows], deviation)
    out = _replace(
        tracks,
        boxes=tracks.boxes.put(columns, corrected),
        score=_put(tracks.score, columns, seen.detections.score[rows]),
        seen_s=_put(tracks.seen_s, columns, now_s),
        hits=_put(tracks.hits, columns, tracks.hits[columns] + 1),
    )
    looked = seen.verdict[rows] != _UNSEEN
    return _judged(out, columns[looked], seen.verdict[rows][looked], now_s) if looked.any() else out


def _deviation(seen: Observations, noise: Noise) -> NDArray[np.float64]:
    """How exact the observed boxes are: standard deviations (n,) as shares of their heights."""
    own = noise.edge_measurement * (1.0 - seen.detections.score.astype(np.float64))
    return np.where(seen.verdict == _CONFIRMED, noise.measurement, np.maximum(own, noise.measurement))


def _judged(tracks: Tracks, at: NDArray[np.intp], verdict: NDArray[np.int8] | np.int8, now_s: float) -> Tracks:
    return _replace(
        tracks, verdict=_put(tracks.verdict, at, verdict), verdict_at_s=_put(tracks.verdict_at_s, at, now_s)
    )


def _deny_absent(tracks: Tracks, seen: Observations, now_s: float) -> Tracks:
    """Where the cloud looked and neither model found the object, it is not there (or hidden): stop publishing it."""
    if not len(seen.looked_at) or not len(tracks):
        return tracks
    covered = coverage(tracks.boxes.xyxy, seen.looked_at).max(axis=1) >= LOOKED_AT_COVERAGE
    absent = np.flatnonzero(covered & (tracks.seen_s < now_s))
    return _judged(tracks, absent, _DENIED, now_s)


def _give_birth(
    seen: Observations, rows: NDArray[np.intp], now_s: float, next_id: int, settings: TrackerSettings
) -> Tracks:
    found = seen.detections
    n = len(rows)
    now = np.full(n, now_s)
    verdict = seen.verdict[rows]
    return Tracks(
        now_s,
        kalman.start(found.xyxy[rows], settings.noise),
        np.arange(next_id, next_id + n, dtype=np.int64),
        found.label[rows],
        found.score[rows],
        now,
        now,
        np.ones(n, np.int64),
        verdict,
        np.where(verdict == _UNSEEN, -np.inf, now_s),
    )


def _put(array: NDArray, index: NDArray[np.intp], value: object) -> NDArray:  # type: ignore[type-arg] # any dtype
    out = array.copy()
    out[index] = value
    return out


def _replace(tracks: Tracks, **changes: object) -> Tracks:
    values = {name: getattr(tracks, name) for name in Tracks.__slots__}
    return Tracks(**(values | changes))


def _select(tracks: Tracks, index: NDArray[np.bool_]) -> Tracks:
    names = ("ids", "label", "score", "born_s", "seen_s", "hits", "verdict", "verdict_at_s")
    return _replace(tracks, boxes=tracks.boxes.select(index), **{n: getattr(tracks, n)[index] for n in names})


def _join(a: Tracks, b: Tracks) -> Tracks:
    names = ("ids", "label", "score", "born_s", "seen_s", "hits", "verdict", "verdict_at_s")
    joined = {n: np.concatenate([getattr(a, n), getattr(b, n)]) for n in names}
    return _replace(a, boxes=kalman.join(a.boxes, b.boxes), **joined)


def relabel(tracks: Tracks, mapping: dict[int, int]) -> Tracks:
    """The tracks with ids replaced where ``mapping`` names them."""
    return _replace(tracks, ids=renamed(tracks.ids, mapping))


def renamed(ids: NDArray[np.int64], mapping: dict[int, int]) -> NDArray[np.int64]:
    """The ids (n,), those that ``mapping`` names replaced."""
    return np.array([mapping.get(i, i) for i in ids.tolist()], dtype=np.int64)
