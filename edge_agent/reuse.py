"""What the larger model said of a place, said again while the place looks the same.

Of an answer the verdict is kept, and the object's box in units of the small model's box: so it moves and grows with
the track. Places without a track are known by where they are, and of them only that nothing was there.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from edge_agent.questions import Answer
from edge_agent.reuse_counts import ReuseCounts
from edge_agent.tracking.history import Entry
from edge_agent.tracking.tracks import LOOKED_AT_COVERAGE, Observations, Verdict
from edge_agent.workers import WorkerDirectory
from pipeline.detections import Detections, Source
from pipeline.frames import FrameKey, Image
from pipeline.geometry import BoxArray, coverage, iou
from pipeline.policies.near_duplicate import Look, NearDuplicates, NearDuplicateSettings, Reuse, difference_hash
from pipeline.policies.offload import Candidate
from pipeline.policies.outcomes import SAME_IOU, drawn

MOST_OPEN = 64
"""Questions whose answers are waited for; the oldest one gives way."""
_AT_PLACE_IOU = 0.3
"""What the larger model found in the same place, as in ``edge_agent.fusion``."""
_SAME_PLACE_IOU = 0.6
_BACKED_SCORE, _SEEN_SCORE = 0.6, 0.4
"""Mean score of both models from which they are sure together, and the small model's from which it sees something."""
_LEAST_SIDE_PX = 8

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Place:
    """A place that is asked about: whose it is, and its ``box`` in frame pixels; ``shown`` is what is compared of it.

    ``row`` is the small model's detection there and ``score`` its score, None and 0 where it has none. ``label`` is ""
    where nothing is known.
    """

    key: Hashable
    box: Box
    shown: Box
    label: str
    row: int | None
    score: float
    tracked: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of a place: the object there, its ``box`` in units of the place's; "" for nothing."""

    label: str = ""
    score: float = 0.0
    box: Box = (0.0, 0.0, 1.0, 1.0)

    def agrees(self, other: "Said") -> bool:
        """Whether both come to the same object in the same place, or to none."""
        if self.label != other.label or not self.label:
            return self.label == other.label
        return bool(iou(_row(self.box), _row(other.box))[0, 0] >= SAME_IOU)

    def backed(self, score: float) -> bool:
        """Whether the small model thinks the same: on the average both are sure, or both see nothing much."""
        return (self.score + score) / 2 >= _BACKED_SCORE if self.label else score < _SEEN_SCORE


@dataclass(frozen=True, slots=True)
class _Open:
    places: tuple[Place, ...]
    looks: tuple[Look, ...]
    scene_s: float
    asked_at_s: float


class AnswerReuse:
    """The answers of one camera that may be used again, and the questions that are under way."""

    def __init__(self, settings: NearDuplicateSettings, counts: ReuseCounts) -> None:
        self._settings, self.counts = settings, counts
        self._known: NearDuplicates[Said] = NearDuplicates(settings)
        self._open: OrderedDict[FrameKey, _Open] = OrderedDict()
        self._untracked: OrderedDict[int, Box] = OrderedDict()
        self._numbered = 0

    def places(self, entry: Entry, asked: Sequence[Candidate]) -> tuple[Place, ...]:
        """The places of a frame that are to be asked about."""
        found, tracks = entry.seen.detections, entry.after.tracks
        rows = {tuple(box): i for i, box in enumerate(found.xyxy.tolist())}
        boxes = tracks.boxes.xyxy.tolist()
        by_id = {number: i for i, number in enumerate(tracks.ids.tolist())}
        missed = {tuple(box): i for i, box in enumerate(boxes)}
        out = []
        for candidate in asked:
            row, track = rows.get(candidate.box), missed.get(candidate.box)
            score = 0.0 if row is None else candidate.score
            if row is not None:
                track = by_id.get(int(entry.after.track_of[row]))
            if track is not None:
                label, (x1, y1, x2, y2) = str(tracks.label[track]), boxes[track]
                number = int(tracks.ids[track])
                out.append(Place(number, candidate.box, (x1, y1, x2, y2), label, row, score, tracked=True))
            else:
                key, shown = self._untracked_at(candidate.box)
                label = "" if row is None else str(found.label[row])
                out.append(Place(key, candidate.box, shown, label, row, score, tracked=False))
        return tuple(out)

    def _untracked_at(self, box: Box) -> tuple[Hashable, Box]:
        """The place without a track that is here: one that was looked at before, or a new one."""
        if self._untracked:
            numbers = list(self._untracked)
            overlap = iou(_row(box), np.array([self._untracked[n] for n in numbers], np.float32))[0]
            best = int(overlap.argmax())
            if overlap[best] >= _SAME_PLACE_IOU:
                return ("place", numbers[best]), self._untracked[numbers[best]]
        self._numbered += 1
        self._untracked[self._numbered] = box
        if len(self._untracked) > self._settings.places:
            self._untracked.popitem(last=False)
        return ("place", self._numbered), box

    def decide(
        self, key: FrameKey, looks: Sequence[Look], served: Collection[str], scene_s: float
    ) -> tuple[Said, ...] | None:
        """What is said again of these places of a frame; None where they must be asked about."""
        audit = drawn(f"reuse/{key.camera}/{key.epoch}/{key.seq}", self._settings.bypass_share)
        decision = self._known.decide(looks, served, scene_s, audit=audit)
        self.counts.most_bits, self.counts.disagreement = self._known.most_bits, self._known.disagreement
        return decision.answers if isinstance(decision, Reuse) else None

    def asked(
        self, key: FrameKey, places: Sequence[Place], looks: Sequence[Look], scene_s: float, asked_at_s: float
    ) -> None:
        """These places of a frame are asked about."""
        self._open[key] = _Open(tuple(places), tuple(looks), scene_s, asked_at_s)
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def answered(self, answer: Answer, seen: Observations, now_s: float) -> None:
        """Keep what an answer says of its places: ``seen`` are the frame's boxes by both models."""
        question = self._open.pop(answer.question.key, None)
        if question is None:
            return
        self.counts.answer((now_s - question.asked_at_s) * 1000)
        for place, look in zip(question.places, question.looks, strict=True):
            said = said_of(place, seen)
            if said is not None:  # what was known is audited also where this cannot be said again
                self._known.answered(look, answer.model, said, question.scene_s)
            if said is None or (said.label and not place.tracked):
                self._known.forget(place.key)


def new_reuse(settings: NearDuplicateSettings, counts: ReuseCounts, *, stills: bool) -> AnswerReuse | None:
    """The reuse of one camera; None where it is off, or where its pictures have nothing to do with one another."""
    return AnswerReuse(settings, counts) if settings.enabled and not stills else None


def models_served(workers: WorkerDirectory, now_s: float) -> frozenset[str]:
    """The models, with their versions, of the workers that are online."""
    online = (known.state for known in workers.all() if not known.fault(now_s))
    return frozenset(f"{model.name}@{model.version}" for state in online for model in state.models)


def looks(image: Image, places: Sequence[Place]) -> tuple[Look, ...]:
    """How places look in a frame, (height, width, 3) uint8 BGR; CPU work."""
    return tuple(Look(place.key, _hash(image, place.shown), place.score) for place in places)


def _hash(image: Image, box: Box) -> int | None:
    height, width = image.shape[:2]
    x1, y1 = max(0, round(box[0])), max(0, round(box[1]))
    x2, y2 = min(width, round(box[2])), min(height, round(box[3]))
    return difference_hash(image[y1:y2, x1:x2]) if min(x2 - x1, y2 - y1) >= _LEAST_SIDE_PX else None


def said_of(place: Place, seen: Observations) -> Said | None:
    """What an answer says of a place; None where it was not looked at, or not wholly."""
    box, found = _row(place.box), seen.detections
    if place.label:
        here = iou(box, found.xyxy)[0] * (found.label == place.label)
    else:  # something in motion, of which an object may be any part
        here = coverage(found.xyxy, box)[:, 0] * (seen.verdict == Verdict.CONFIRMED)
    if here.max(initial=0.0) >= _AT_PLACE_IOU:
        best = int(here.argmax())
        if seen.verdict[best] == Verdict.CONFIRMED:
            return Said(str(found.label[best]), float(found.score[best]), _within(place.box, found.xyxy[best].tolist()))
        return Said() if seen.verdict[best] == Verdict.DENIED else None
    return Said() if coverage(box, seen.looked_at).max(initial=0.0) >= LOOKED_AT_COVERAGE else None


def said_again(seen: Observations, places: Sequence[Place], said: Sequence[Said]) -> Observations:
    """A frame's boxes with what is said again of its places."""
    own = seen.detections
    xyxy, score, label, source = own.xyxy.copy(), own.score.copy(), own.label.tolist(), own.source.tolist()
    verdict, missed = seen.verdict.copy(), list[Detections]()
    for place, word in zip(places, said, strict=True):
        if place.row is None:
            if word.label:  # a track is where it is: to move it by its own answer once more would drive it away
                missed.append(Detections.of([place.box], [word.score], [word.label], Source.TRACK))
            continue
        verdict[place.row] = Verdict.CONFIRMED if word.label else Verdict.DENIED
        if word.label:
            xyxy[place.row], score[place.row] = _over(place.box, word.box), word.score
            label[place.row], source[place.row] = word.label, Source.TRACK.value
    moved = Detections(xyxy, score, np.array(label, np.str_), np.array(source, np.str_), own.track_id.copy())
    verdict = np.concatenate([verdict, np.full(len(missed), Verdict.CONFIRMED, np.int8)])
    looked_at = np.array([place.box for place in places], np.float32).reshape(-1, 4)
    return Observations(Detections.concat([moved, *missed]), verdict, looked_at)


def _row(box: Box) -> BoxArray:
    return np.array([box], np.float32)


def _within(place: Box, box: Sequence[float]) -> Box:
    """A box in units of a place's."""
    left, top, width, height = _origin_and_sides(place)
    x1, y1, x2, y2 = box
    return (x1 - left) / width, (y1 - top) / height, (x2 - left) / width, (y2 - top) / height


def _over(place: Box, box: Box) -> Box:
    """A box in frame pixels that was in units of a place's."""
    left, top, width, height = _origin_and_sides(place)
    x1, y1, x2, y2 = box
    return left + x1 * width, top + y1 * height, left + x2 * width, top + y2 * height


def _origin_and_sides(box: Box) -> Box:
    """Left, top, width and height; a box without extent counts as one of a pixel."""
    return box[0], box[1], max(box[2] - box[0], 1.0), max(box[3] - box[1], 1.0)
