"""Which places of an analysed frame deserve a second look. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.tracking.history import Entry
from edge_agent.tracking.tracks import Tracks, Verdict
from pipeline.geometry import BoxArray, iou
from pipeline.policies.offload import Candidate, Why


@dataclass(frozen=True, slots=True)
class CandidateSettings:
    """When a place is worth another look.

    A track is ``recheck_s`` after the cloud's last look, ``still_recheck_s`` if it stands still: if it moves by less
    than ``still_speed`` of its height per second. Scores between ``sure_below`` and ``sure_above`` are
    uncertain. At most ``most_motion`` moving places without a detection; a confirmed track that the small model
    misses is looked for during ``missed_s``.
    """

    recheck_s: float = 0.0
    still_recheck_s: float = 1.0
    still_speed: float = 0.1
    sure_below: float = 0.15
    sure_above: float = 0.7
    most_motion: int = 6
    missed_s: float = 1.0


def candidates(entry: Entry, motion: BoxArray, settings: CandidateSettings) -> tuple[Candidate, ...]:
    """Candidates of one frame: its detections, the moving places (n, 4) without one, the tracks it missed."""
    found = entry.seen.detections
    places = [
        _of_detection(entry, row, settings) for row in range(len(found)) if found.score[row] >= settings.sure_below
    ]
    places += _of_motion(found.xyxy, motion, settings)
    places += _of_missed(entry.after.tracks, entry.after.track_of, settings)
    return tuple(place for place in places if place is not None)


def _as_tuple(box: NDArray[np.float32]) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = box.tolist()
    return x1, y1, x2, y2


def _of_detection(entry: Entry, row: int, settings: CandidateSettings) -> Candidate | None:
    found, tracks = entry.seen.detections, entry.after.tracks
    box, score = _as_tuple(found.xyxy[row]), float(found.score[row])
    at = np.flatnonzero(tracks.ids == entry.after.track_of[row])
    if len(at) and np.isfinite(tracks.verdict_at_s[at[0]]):
        speed = np.abs(tracks.boxes.velocity[at[0], :2]).max() / max(float(tracks.boxes.position[at[0], 3]), 1.0)
        wait_s = settings.still_recheck_s if speed < settings.still_speed else settings.recheck_s
        if entry.at_s - float(tracks.verdict_at_s[at[0]]) < wait_s - 1e-6:
            return None
        return Candidate(box, Why.UNVERIFIED, 0.3)
    if score < settings.sure_above:
        return Candidate(box, Why.UNCERTAIN, 1.0 - abs(2 * score - 1) / 2)
    return Candidate(box, Why.NEW_TRACK, 0.6)


def _of_motion(boxes: BoxArray, motion: BoxArray, settings: CandidateSettings) -> list[Candidate]:
    if not len(motion):
        return []
    free = iou(motion, boxes).max(axis=1, initial=0.0) <= 0.0
    return [Candidate(_as_tuple(box), Why.MOTION, 0.4) for box in motion[free][: settings.most_motion]]


def _of_missed(tracks: Tracks, track_of: NDArray[np.int64], settings: CandidateSettings) -> list[Candidate]:
    missed = ~np.isin(tracks.ids, track_of) & (tracks.at_s - tracks.seen_s <= settings.missed_s)
    missed &= tracks.verdict == Verdict.CONFIRMED
    return [Candidate(_as_tuple(box), Why.MISSED, 0.8) for box in tracks.boxes.xyxy[missed]]
