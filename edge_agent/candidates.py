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
    than ``still_speed`` of its height per second. Scores between ``sure_below`` and ``sure_above`` are uncertain.
    At most ``most_motion`` moving places without a detection; a confirmed track that the small model misses is looked
    for during ``missed_s``.
    """

    recheck_s: float = 0.0
    still_recheck_s: float = 1.0
    still_speed: float = 0.1
    sure_below: float = 0.25
    sure_above: float = 0.7
    most_motion: int = 6
    missed_s: float = 1.0


def candidates(entry: Entry, motion: BoxArray, settings: CandidateSettings) -> tuple[Candidate, ...]:
    """Candidates of one frame: its detections, the moving places (n, 4) without one, the tracks it missed."""
    found = entry.seen.detections
    places = _of_detections(entry, settings)
    places += _of_motion(found.xyxy, motion, settings)
    places += _of_missed(entry.after.tracks, entry.after.track_of, settings)
    return tuple(places)


Box = tuple[float, float, float, float]


def _boxes(xyxy: BoxArray) -> list[Box]:
    return [(x1, y1, x2, y2) for x1, y1, x2, y2 in xyxy.tolist()]


def _of_detections(entry: Entry, settings: CandidateSettings) -> list[Candidate]:
    found, due = entry.seen.detections, _due(entry.after.tracks, entry.at_s, settings)
    places = []
    for box, score, track in zip(_boxes(found.xyxy), found.score.tolist(), entry.after.track_of.tolist(), strict=True):
        if score < settings.sure_below:
            continue
        if track in due:
            if due[track]:
                places.append(Candidate(box, Why.UNVERIFIED, 0.3))
        elif score < settings.sure_above:
            places.append(Candidate(box, Why.UNCERTAIN, 1.0 - abs(2 * score - 1) / 2))
        else:
            places.append(Candidate(box, Why.NEW_TRACK, 0.6))
    return places


def _due(tracks: Tracks, now_s: float, settings: CandidateSettings) -> dict[int, bool]:
    """Whether another look is due, by track id, for the tracks that the cloud has looked at."""
    height = np.maximum(tracks.boxes.position[:, 3], 1.0)
    still = np.abs(tracks.boxes.velocity[:, :2]).max(axis=1, initial=0.0) < settings.still_speed * height
    wait_s = np.where(still, settings.still_recheck_s, settings.recheck_s)
    due = now_s - tracks.verdict_at_s >= wait_s - 1e-6
    looked = np.isfinite(tracks.verdict_at_s)
    return dict(zip(tracks.ids[looked].tolist(), due[looked].tolist(), strict=True))


def _of_motion(boxes: BoxArray, motion: BoxArray, settings: CandidateSettings) -> list[Candidate]:
    if not len(motion):
        return []
    free = iou(motion, boxes).max(axis=1, initial=0.0) <= 0.0
    return [Candidate(box, Why.MOTION, 0.4) for box in _boxes(motion[free][: settings.most_motion])]


def _of_missed(tracks: Tracks, track_of: NDArray[np.int64], settings: CandidateSettings) -> list[Candidate]:
    missed = (tracks.verdict == np.int8(Verdict.CONFIRMED)) & (tracks.at_s - tracks.seen_s <= settings.missed_s)
    missed &= (tracks.ids[:, None] != track_of).all(axis=1)
    return [Candidate(box, Why.MISSED, 0.8) for box in _boxes(tracks.boxes.xyxy[missed])]
