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
    step,
)
from pipeline.detections import Detections, Source
from pipeline.geometry import Size, area, clip, iou

_TEMPORARY_ID = 1 << 40
"""Ids from here on are given during a replay and replaced before anybody sees them."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One analysed frame: what was seen, and the tracks before and after it."""

    seq: int
    at_s: float
    seen: Observations
    before: Tracks
    after: Step


class Tracker:
    """The tracks of one camera. Not thread-safe; one caller at a time."""

    def __init__(self, settings: TrackerSettings, history_s: float = 3.0, history_most: int = 64) -> None:
        self._settings = settings
        self._history_s = history_s
        self._entries: deque[Entry] = deque(maxlen=history_most)
        self._tracks = Tracks.none(0.0)
        self._next_id = 1

    @property
    def tracks(self) -> Tracks:
        """The tracks after the newest analysed frame."""
        return self._tracks

    def observe(self, seq: int, at_s: float, detections: Detections) -> Entry:
        """Take in what the small model saw on a frame newer than all before."""
        before = self._tracks
        seen = Observations.unseen(detections)
        after = step(before, seen, at_s, self._next_id, self._settings)
        entry = Entry(seq, at_s, seen, before, after)
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
        previous = self._tracks
        tracks = entries[at].before
        replayed: list[Entry] = []
        next_id = _TEMPORARY_ID
        for entry in entries[at:]:
            observed = seen if entry.seq == seq else entry.seen
            after = step(tracks, observed, entry.at_s, next_id, self._settings)
            next_id = max(next_id, int(after.tracks.ids.max(initial=0)) + 1)
            replayed.append(Entry(entry.seq, entry.at_s, observed, tracks, after))
            tracks = after.tracks
        mapping = self._identities(entries[at], replayed, previous, tracks)
        self._entries = deque([*entries[:at], *(_renamed(e, mapping) for e in replayed)], maxlen=self._entries.maxlen)
        self._tracks = relabel(tracks, mapping)
        return True

    def _identities(self, original: Entry, replayed: list[Entry], previous: Tracks, replaced: Tracks) -> dict[int, int]:
        """Old ids for the tracks born in a replay where they are the same object, fresh ids for the others."""
        temporary = sorted(
            {int(i) for e in replayed for i in e.after.tracks.ids if i >= _TEMPORARY_ID},
        )
        mapping: dict[int, int] = {}
        taken = {int(i) for i in replaced.ids}
        for now, then in ((replayed[0].after.tracks, original.after.tracks), (replaced, previous)):
            _match_same(now, then, taken, mapping)
        for i in temporary:
            if i not in mapping:
                mapping[i] = self._next_id
                self._next_id += 1
        return mapping

    def entry(self, seq: int) -> Entry | None:
        """The analysed frame ``seq``, if it is still remembered."""
        return next((e for e in reversed(self._entries) if e.seq == seq), None)

    def at(self, moment_s: float) -> tuple[Tracks, float]:
        """The tracks predicted to a moment from the last frame analysed before it, and that frame's time."""
        last = next((e.after.tracks for e in reversed(self._entries) if e.at_s <= moment_s), self._tracks)
        return predict(last, moment_s, self._settings), last.at_s


def _match_same(now: Tracks, then: Tracks, taken: set[int], mapping: dict[int, int]) -> None:
    """Give tracks of ``now`` with temporary ids the id of the free, best overlapping track of ``then``."""
    fresh = [i for i in range(len(now)) if now.ids[i] >= _TEMPORARY_ID and int(now.ids[i]) not in mapping]
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
    track_of = np.array([mapping.get(int(i), int(i)) for i in entry.after.track_of], dtype=np.int64)
    after = Step(relabel(entry.after.tracks, mapping), track_of)
    return replace(entry, before=relabel(entry.before, mapping), after=after)


def analysed_answer(entry: Entry, size: Size, settings: TrackerSettings) -> Detections:
    """What to publish for an analysed frame: its own boxes by verdict and score, and tracks it missed for a while."""
    tracks, seen = entry.after.tracks, entry.seen
    verdicts = tracks.verdict_now(entry.at_s, settings.verdict_s)
    verdict_of = {int(i): int(v) for i, v in zip(tracks.ids, verdicts, strict=True)}
    held = np.array([verdict_of.get(int(i), int(Verdict.UNSEEN)) for i in entry.after.track_of], dtype=np.int8)
    verdict = np.where(seen.verdict != Verdict.UNSEEN, seen.verdict, held)
    score = seen.detections.score
    shown = (verdict == Verdict.CONFIRMED) | ((verdict == Verdict.UNSEEN) & (score >= settings.publish_score))
    shown &= ~((verdict == Verdict.CONFIRMED) & (seen.verdict == Verdict.UNSEEN) & (score < settings.low_score))
    own = seen.detections.select(shown)
    own = Detections(own.xyxy, own.score, own.label, own.source, entry.after.track_of[shown])
    missed = _coasting(tracks, settings) & ~np.isin(tracks.ids, entry.after.track_of)
    return _inside(Detections.concat([own, _as_detections(tracks, missed)]), size)


def carried_answer(tracks: Tracks, analysed_at_s: float, size: Size, settings: TrackerSettings) -> Detections:
    """What to publish for a frame that was not analysed: tracks moved there. ``analysed_at_s`` is the frame they
    were last updated on.
    """
    shown = _shown(tracks, analysed_at_s, settings)
    return _inside(_as_detections(tracks, shown), size)


def _coasting(tracks: Tracks, settings: TrackerSettings) -> NDArray[np.bool_]:
    return _shown(tracks, tracks.at_s, settings)


def _shown(tracks: Tracks, analysed_at_s: float, settings: TrackerSettings) -> NDArray[np.bool_]:
    verdict = tracks.verdict_now(analysed_at_s, settings.verdict_s)
    unseen_for_s = analysed_at_s - tracks.seen_s
    confirmed = (verdict == Verdict.CONFIRMED) & (unseen_for_s <= settings.confirmed_coast_s)
    own = (verdict == Verdict.UNSEEN) & (tracks.score >= settings.publish_score) & (unseen_for_s <= settings.coast_s)
    return np.asarray(confirmed | own)


def _as_detections(tracks: Tracks, shown: NDArray[np.bool_]) -> Detections:
    return Detections.of(
        tracks.boxes.xyxy[shown], tracks.score[shown], tracks.label[shown], Source.TRACK, tracks.ids[shown]
    )


def _inside(found: Detections, size: Size) -> Detections:
    """The detections cut to the frame; those that lie outside it are left out."""
    boxes = clip(found.xyxy, size)
    whole = area(boxes) > 1.0
    return found.with_boxes(boxes).select(whole)
