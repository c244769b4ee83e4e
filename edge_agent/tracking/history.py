"""A tracker that can be corrected afterwards.

The steps of the last seconds are kept. When the larger model's answer for an earlier frame arrives, that step is done
again with the corrected boxes and the later ones are replayed on top: the standard cure for out-of-sequence
measurements, exact where moving boxes forward by hand would be a guess. Identities survive the replay.
"""

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edge_agent.tracking.tracks import (
    Observations,
    Step,
    TrackerSettings,
    Tracks,
    Verdict,
    predict,
    relabel,
    renamed,
    step,
)
from pipeline.detections import Detections, Source
from pipeline.geometry import Size, area, clip, iou
from pipeline.policies.fallback import decay

_TEMPORARY_ID = 1 << 40
"""Ids from here on are given during a replay and replaced before anybody sees them."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One frame: what was seen, and the tracks before and after it. ``looked``: whether any model has, by now."""

    seq: int
    at_s: float
    seen: Observations
    before: Tracks
    after: Step
    looked: bool = True


class Tracker:
    """The tracks of one camera, with ids from ``next_id`` on. Not thread-safe; one caller at a time."""

    def __init__(
        self, settings: TrackerSettings, history_s: float = 3.0, history_most: int = 64, next_id: int = 1
    ) -> None:
        self._settings = settings
        self._history_s = history_s
        self._entries: deque[Entry] = deque(maxlen=history_most)
        self._tracks = Tracks.none(float("-inf"))
        self._next_id = next_id

    @property
    def tracks(self) -> Tracks:
        """The tracks after the newest analysed frame."""
        return self._tracks

    @property
    def next_id(self) -> int:
        """The id of the next new track."""
        return self._next_id

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The analysed frames that are remembered, oldest first."""
        return tuple(self._entries)

    def observe(self, seq: int, at_s: float, detections: Detections, *, looked: bool = True) -> Entry:
        """Take in what the small model saw on a frame newer than all before; a time that falls starts anew.

        Where it has not ``looked``, and only the larger one is to, the frame says nothing until that has.
        """
        if at_s < self._tracks.at_s:
            self._entries.clear()
            self._tracks = Tracks.none(at_s)
        before = self._tracks
        seen = Observations.unseen(detections)
        after = step(before, seen, at_s, self._next_id, self._settings)
        entry = Entry(seq, at_s, seen, before, after, looked)
        self._next_id = max(self._next_id, int(after.tracks.ids.max(initial=0)) + 1)
        self._entries.append(entry)
        while at_s - self._entries[0].at_s > self._history_s:
            self._entries.popleft()
        self._tracks = after.tracks
        return entry

    def correct(self, seq: int, seen: Observations) -> bool:
        """Replace what was seen on frame ``seq`` and replay the frames since; False when it is too long ago."""
        entries = list(self._entries)
        at = next((i for i, e in enumerate(entries) if e.seq == seq), None)
        if at is None:
            return False
        tracks = entries[at].before
        replayed: list[Entry] = []
        next_id = _TEMPORARY_ID
        for entry in entries[at:]:
            observed = seen if entry.seq == seq else entry.seen
            after = step(tracks, observed, entry.at_s, next_id, self._settings)
            next_id = max(next_id, int(after.tracks.ids.max(initial=0)) + 1)
            looked = entry.looked or entry.seq == seq
            replayed.append(Entry(entry.seq, entry.at_s, observed, tracks, after, looked))
            tracks = after.tracks
        if next_id > _TEMPORARY_ID:
            mapping = self._identities(entries[at:], replayed)
            replayed = [_renamed(e, mapping) for e in replayed]
        self._entries = deque([*entries[:at], *replayed], maxlen=self._entries.maxlen)
        self._tracks = replayed[-1].after.tracks
        return True

    def _identities(self, original: list[Entry], replayed: list[Entry]) -> dict[int, int]:
        """Old ids for the tracks born in a replay where they are the same object, fresh ids for the others."""
        seen = {i for e in replayed for i in e.after.tracks.ids.tolist()}
        taken = {i for i in seen if i < _TEMPORARY_ID}
        mapping: dict[int, int] = {}
        for now, then in zip(replayed, original, strict=True):
            _match_same(now.after.tracks, then.after.tracks, taken, mapping)
        for i in sorted(seen - taken - mapping.keys()):
            mapping[i] = self._next_id
            self._next_id += 1
        return mapping

    def entry(self, seq: int) -> Entry | None:
        """The analysed frame ``seq``, if it is still remembered."""
        return next((e for e in reversed(self._entries) if e.seq == seq), None)

    def at(self, moment_s: float) -> tuple[Tracks, float]:
        """The tracks predicted to a moment from the last frame looked at before it, and that frame's time."""
        before = (e.after.tracks for e in reversed(self._entries) if e.looked and e.at_s <= moment_s)
        last = next(before, self._tracks)
        return predict(last, moment_s, self._settings), last.at_s


def _match_same(now: Tracks, then: Tracks, taken: set[int], mapping: dict[int, int]) -> None:
    """Give tracks of ``now`` with temporary ids the id of the free, best overlapping track of ``then``."""
    fresh = [row for row, i in enumerate(now.ids.tolist()) if i >= _TEMPORARY_ID and i not in mapping]
    if not fresh or not len(then):
        return
    overlap = iou(now.boxes.xyxy[fresh], then.boxes.xyxy)
    for flat in np.argsort(-overlap, axis=None, kind="stable"):
        row, column = divmod(int(flat), len(then))
        if overlap[row, column] < 0.3:
            break
        temporary, old = int(now.ids[fresh[row]]), int(then.ids[column])
        if temporary not in mapping and old not in taken:
            mapping[temporary] = old
            taken.add(old)


def _renamed(entry: Entry, mapping: dict[int, int]) -> Entry:
    after = Step(relabel(entry.after.tracks, mapping), renamed(entry.after.track_of, mapping))
    return replace(entry, before=relabel(entry.before, mapping), after=after)


def analysed_answer(entry: Entry, size: Size, settings: TrackerSettings) -> Detections:
    """What to publish for an analysed frame: its own boxes by verdict and score, and tracks it missed for a while.

    A box of the small model is published as its track has it, which weighs the box by its score against those before.
    """
    tracks, seen = entry.after.tracks, entry.seen
    row_of = {i: row for row, i in enumerate(tracks.ids.tolist())}
    rows = np.array([row_of.get(i, -1) for i in entry.after.track_of.tolist()], dtype=np.intp)
    # One more row for observations without a track.
    held = np.append(tracks.verdict_now(entry.at_s, settings.verdict_s), np.int8(Verdict.UNSEEN))[rows]
    looked = seen.verdict != np.int8(Verdict.UNSEEN)
    verdict = np.where(looked, seen.verdict, held)
    score = seen.detections.score
    confirmed = (verdict == np.int8(Verdict.CONFIRMED)) & (looked | (score >= settings.low_score))
    shown = confirmed | ((verdict == np.int8(Verdict.UNSEEN)) & (score >= settings.publish_score))
    missed = _shown(tracks, tracks.at_s, settings)
    missed[rows[rows >= 0]] = False
    own, found = seen.detections, _as_detections(tracks, missed)
    tracked = (rows >= 0) & ~looked
    xyxy = own.xyxy.copy()
    xyxy[tracked] = tracks.boxes.xyxy[rows[tracked]]
    own = Detections(xyxy[shown], own.score[shown], own.label[shown], own.source[shown], entry.after.track_of[shown])
    return _inside(Detections.concat([own, found]) if len(found) else own, size)


def carried_answer(tracks: Tracks, analysed_at_s: float, size: Size, settings: TrackerSettings) -> Detections:
    """What to publish for a frame that was not analysed: tracks moved there. ``analysed_at_s`` is the frame they
    were last updated on.
    """
    shown = _shown(tracks, analysed_at_s, settings)
    return _inside(_as_detections(tracks, shown), size)


def _shown(tracks: Tracks, analysed_at_s: float, settings: TrackerSettings) -> NDArray[np.bool_]:
    verdict = tracks.verdict_now(analysed_at_s, settings.verdict_s)
    unseen_for_s = analysed_at_s - tracks.seen_s
    confirmed = (verdict == np.int8(Verdict.CONFIRMED)) & (unseen_for_s <= settings.confirmed_coast_s)
    own = (
        (verdict == np.int8(Verdict.UNSEEN))
        & (tracks.score >= settings.publish_score)
        & (unseen_for_s <= settings.coast_s)
    )
    return np.asarray(confirmed | own)


def _as_detections(tracks: Tracks, shown: NDArray[np.bool_]) -> Detections:
    """The tracks as boxes that nobody saw there: the longer ago they were seen, the less sure they are."""
    score = tracks.score[shown] * decay(tracks.at_s - tracks.seen_s[shown])
    return Detections.of(tracks.boxes.xyxy[shown], score, tracks.label[shown], Source.TRACK, tracks.ids[shown])


def _inside(found: Detections, size: Size) -> Detections:
    """The detections cut to the frame; those that lie outside it are left out."""
    inside = found.with_boxes(clip(found.xyxy, size))
    visible = area(inside.xyxy) > 1.0
    return inside if visible.all() else inside.select(visible)
