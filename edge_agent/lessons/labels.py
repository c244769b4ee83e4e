"""From the larger model's answer for a frame, and what was seen before and after it, to what is known of it. Pure.

A single answer has noise: boxes that come and go, objects missed for one frame, scores in between. Tracks tell most of
it from what is really there. What they cannot tell is ignored: neither object nor background is learned there.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.tracking.history import Entry
from edge_agent.tracking.tracks import LOOKED_AT_COVERAGE, Verdict
from pipeline.detections import Detections, Source
from pipeline.geometry import BoxArray, Size, area, clip, coverage, iou

_CONFIRMED, _DENIED = np.int8(Verdict.CONFIRMED), np.int8(Verdict.DENIED)
_NO_BOXES: BoxArray = np.empty((0, 4), np.float32)
_ALIKE = 0.6
"""Sides of one object, the smaller as a share of the larger, in two looks close to each other."""
_HEIGHTS_PER_S = 1.5
"""What an object moves by at most: a person who walks makes 0.8 of their height, who runs twice as much."""


@dataclass(frozen=True, slots=True)
class CleaningSettings:
    """How labels are cleaned.

    Scores of the larger model in [0, 1]: from ``sure_score`` on a detection counts by itself, if its track was seen
    on ``least_share`` of the other looks at its place; from ``faint_score`` on, where a track passes that as many of
    them, and no fewer than ``confirmations``, have found. An object that is missed once is known where it was found at
    most ``near_s`` before and after. Looks more than ``reach_s`` away say nothing. Boxes that overlap by ``same_iou``
    are of one object.
    """

    sure_score: float = 0.5
    faint_score: float = 0.25
    confirmations: int = 2
    least_share: float = 0.25
    near_s: float = 0.4
    reach_s: float = 1.0
    same_iou: float = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Annotation:
    """What is known of a frame, and where (m, 4) nobody knows; in frame pixels."""

    known: Detections
    ignored: BoxArray


def clean(at: Entry, around: Sequence[Entry], answer: Detections, size: Size, settings: CleaningSettings) -> Annotation:
    """What is known of a frame of ``size`` that the larger model has looked at as a whole.

    ``answer`` is all that it saw, faint detections too. ``at`` is the frame's step of the tracker, corrected by it,
    and ``around`` are the steps before and after.
    """
    looks = [e for e in around if e.seq != at.seq and e.looked and abs(e.at_s - at.at_s) <= settings.reach_s]
    tracks = Sightings(looks, at.at_s, settings)
    sure = _tracked(answer.select(answer.score >= settings.sure_score), at, settings.same_iou)
    doubtful = np.array([tracks.contradict(sure, row) for row in range(len(sure))], bool)
    faint = answer.select((answer.score >= settings.faint_score) & (answer.score < settings.sure_score))
    backed, unclear = _backed(faint, sure, tracks, settings)
    known = Detections.concat([sure.select(~doubtful), backed])
    missed, unknown = _missed(known, tracks, settings)
    disputed = _disputed(missed, sure, settings.same_iou)
    ignored = [sure.xyxy[doubtful], unclear, unknown, missed.xyxy[disputed]]
    return cut(Detections.concat([known, missed.select(~disputed)]), np.concatenate(ignored), size)


@dataclass(frozen=True, slots=True, eq=False)
class Hit:
    """A detection of a track by the larger model; ``box`` (4,) ``xyxy``."""

    at_s: float
    box: NDArray[np.float32]
    score: float
    label: str


class Sightings:
    """Where tracks were found before and after ``at_s``: by the larger model, and by anybody."""

    def __init__(self, looks: Sequence[Entry], at_s: float, settings: CleaningSettings) -> None:
        self.at_s, self._settings = at_s, settings
        self._regions = np.concatenate([_NO_BOXES, *(entry.seen.looked_at for entry in looks)])
        self._look_of = np.repeat(np.arange(len(looks)), [len(entry.seen.looked_at) for entry in looks])
        self._seen: Counter[int] = Counter()
        self.hits: dict[int, list[Hit]] = {}
        for entry in sorted(looks, key=lambda e: e.at_s):
            found, ids = entry.seen.detections, entry.after.track_of
            self._seen.update(set(ids[entry.seen.verdict != _DENIED].tolist()))
            own = (entry.seen.verdict == _CONFIRMED) & (found.source == Source.CLOUD.value) & (ids >= 0)
            for row in np.flatnonzero(own).tolist():
                hit = Hit(entry.at_s, found.xyxy[row], float(found.score[row]), str(found.label[row]))
                self.hits.setdefault(int(ids[row]), []).append(hit)

    def _looks_at(self, box: NDArray[np.float32]) -> int:
        """How often the larger model has looked there another time."""
        covered = coverage(box[None], self._regions)[0] >= LOOKED_AT_COVERAGE
        return len(np.unique(self._look_of[covered]))

    def contradict(self, sure: Detections, row: int) -> bool:
        """Whether too few of the other looks where the larger model was sure now show that track, and none an object
        nearby that is not one of the others: where looks are rare, tracks lose what moves.
        """
        box, track_id = sure.xyxy[row], int(sure.track_id[row])
        looks, seen = self._looks_at(box), self._seen[track_id] if track_id >= 0 else 0
        if not looks or seen >= max(1.0, self._settings.least_share * looks):
            return False
        if seen:
            return True
        label, others = str(sure.label[row]), set(sure.track_id.tolist())
        free = (hit for i, hits in self.hits.items() if i not in others for hit in hits if hit.label == label)
        return not any(_reached(box, hit.box, abs(hit.at_s - self.at_s)) for hit in free)

    def confirmed(self, track_id: int) -> bool:
        """Whether enough of the other looks have found the track."""
        hits, settings = self.hits[track_id], self._settings
        return len(hits) >= max(settings.confirmations, settings.least_share * self._looks_at(hits[0].box))

    def between(self, track_id: int) -> tuple[Hit, Hit] | None:
        """The last hit before and the first one after, where there are both."""
        before = [hit for hit in self.hits[track_id] if hit.at_s < self.at_s]
        after = [hit for hit in self.hits[track_id] if hit.at_s >= self.at_s]
        return (before[-1], after[0]) if before and after else None

    def nearest(self, track_id: int) -> tuple[Hit, Hit]:
        """The two hits that tell most of where the track is, which may be one and the same."""
        by_time = sorted(self.hits[track_id], key=lambda hit: abs(hit.at_s - self.at_s))
        return self.between(track_id) or (by_time[0], by_time[:2][-1])

    def place(self, track_id: int) -> NDArray[np.float32]:
        """Where the track must be (4,): on the line through the nearest two hits, or where its only one is."""
        a, b = self.nearest(track_id)
        if a.at_s == b.at_s:
            return a.box
        share = (self.at_s - a.at_s) / (b.at_s - a.at_s)
        return np.asarray(a.box + np.float32(share) * (b.box - a.box), np.float32)

    def places(self, track_ids: Sequence[int]) -> Detections:
        """Where the tracks must be, with the less sure score of their nearest hits."""
        boxes = [self.place(track_id) for track_id in track_ids]
        scores = [min(hit.score for hit in self.nearest(i)) for i in track_ids]
        return Detections.of(boxes, scores, [self.hits[i][0].label for i in track_ids], Source.TRACK, list(track_ids))


def _reached(a: NDArray[np.float32], b: NDArray[np.float32], by_s: float) -> bool:
    """Whether an object of about one size can have come from one box (4,) to the other in that time."""
    size_a, size_b = a[2:] - a[:2], b[2:] - b[:2]
    alike = (np.minimum(size_a, size_b) >= _ALIKE * np.maximum(size_a, size_b)).all()
    far = np.abs((a[:2] + a[2:] - b[:2] - b[2:]) / 2).max()
    return bool(alike and far <= _HEIGHTS_PER_S * by_s * max(size_a[1], size_b[1]))


def _tracked(sure: Detections, at: Entry, same_iou: float) -> Detections:
    """The sure detections of a frame with the ids of their tracks."""
    seen, ids = at.seen.detections, np.full(len(sure), -1, np.int64)
    for row, column in _pairs(sure, seen, same_iou):
        ids[row] = at.after.track_of[column]
    return Detections(sure.xyxy.copy(), sure.score.copy(), sure.label.copy(), sure.source.copy(), ids)


def _backed(
    faint: Detections, sure: Detections, tracks: Sightings, settings: CleaningSettings
) -> tuple[Detections, BoxArray]:
    """The faint detections that confirmed tracks pass through, with these; and where (m, 4) the others are."""
    faint = faint.select(~_repeated(faint, sure, settings.same_iou))
    found = [i for i in tracks.hits if i not in sure.track_id and tracks.confirmed(i)]
    places = tracks.places(found)
    if not len(faint) or not len(places):
        return Detections.none(), faint.xyxy
    ids = np.full(len(faint), -1, np.int64)
    for row, column in _pairs(faint, places, settings.same_iou):
        ids[row] = found[column]
    backed = Detections(faint.xyxy.copy(), faint.score.copy(), faint.label.copy(), faint.source.copy(), ids)
    return backed.select(ids >= 0), faint.xyxy[ids < 0]


def _missed(known: Detections, tracks: Sightings, settings: CleaningSettings) -> tuple[Detections, BoxArray]:
    """Tracks found before and after and not now: those that must be there, and where (m, 4) others may be."""
    ids = [i for i in tracks.hits if i not in known.track_id and tracks.between(i) is not None]
    places = tracks.places(ids)
    free = ~_repeated(places, known, settings.same_iou)
    gaps = [(tracks.at_s - a.at_s, b.at_s - tracks.at_s) for a, b in filter(None, map(tracks.between, ids))]
    near = np.array([max(gap) <= settings.near_s for gap in gaps], bool)
    return places.select(free & near), places.xyxy[free & ~near]


def _disputed(missed: Detections, sure: Detections, same_iou: float) -> NDArray[np.bool_]:
    """Which of the missed objects (n,) are where the larger model sees another class."""
    if not len(missed) or not len(sure):
        return np.zeros(len(missed), bool)
    other = iou(missed.xyxy, sure.xyxy) * (missed.label[:, None] != sure.label)
    return np.asarray(other.max(axis=1) >= same_iou)


def _pairs(a: Detections, b: Detections, same_iou: float) -> Iterator[tuple[int, int]]:
    """Rows of one object in a and b, one to one, best overlap first."""
    overlap = _overlap(a, b)
    while overlap.size and overlap.max() >= same_iou:
        row, column = divmod(int(overlap.argmax()), len(b))
        yield row, column
        overlap[row], overlap[:, column] = 0.0, 0.0


def _overlap(a: Detections, b: Detections) -> NDArray[np.float32]:
    """Intersection over union (n, m), 0 between two classes."""
    return np.asarray(iou(a.xyxy, b.xyxy) * (a.label[:, None] == b.label), np.float32)


def _repeated(a: Detections, b: Detections, same_iou: float) -> NDArray[np.bool_]:
    """Which of a (n,) are of an object that b has too."""
    return np.asarray(_overlap(a, b).max(axis=1, initial=0.0) >= same_iou)


def cut(known: Detections, ignored: BoxArray, size: Size) -> Annotation:
    """Cut to the frame; what lies outside it is left out."""
    inside, rest = known.with_boxes(clip(known.xyxy, size)), clip(ignored, size)
    return Annotation(inside.select(area(inside.xyxy) > 1.0), rest[area(rest) > 1.0])
