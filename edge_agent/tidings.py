"""What an analysed frame has told the gate: how fast its tracks move, how many are new, whether it was a surprise.

Pure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.tracking.history import Entry
from edge_agent.tracking.tracks import TrackerSettings, Tracks, Verdict
from pipeline.detections import Detections
from pipeline.geometry import iou
from pipeline.policies.keep import News

FORETOLD_IOU = 0.6
"""A track whose box lies elsewhere than this much was not foretold well enough."""
SAME_IOU = 0.3
"""Boxes of the two models that overlap so much are of one object."""
STILL_WIDTHS_S = 0.1
"""Below this speed a track stands; parked cars say nothing about how fast the street is."""


@dataclass(frozen=True, slots=True)
class Tidings:
    """``speed_widths_s`` is the median of the tracks that move, in box widths per second; 0 where none does."""

    speed_widths_s: float
    births: int
    news: News


def tidings(entry: Entry, last: Entry | None, settings: TrackerSettings) -> Tidings:
    """What a frame's step of the tracker says; ``last`` is the frame analysed before it.

    Only tracks that are published count: flicker is no news.
    """
    after = entry.after.tracks
    shown = _shown(after, entry.at_s, settings)
    new = shown & (after.born_s >= entry.at_s)
    astray = last is not None and _astray(entry, last, frozenset(after.ids[shown].tolist()))
    return Tidings(_speed(after, shown), int(np.count_nonzero(new)), News(elsewhere=bool(new.any()), tracked=astray))


def correction(before: Detections, after: Detections) -> News:
    """What the cloud has added to a frame's answer, and what it has taken away."""
    if not len(before) or not len(after):
        return News(elsewhere=bool(len(after)), tracked=bool(len(before)))
    overlap = iou(before.xyxy, after.xyxy)
    added, gone = overlap.max(axis=0) < SAME_IOU, overlap.max(axis=1) < SAME_IOU
    return News(elsewhere=bool(added.any()), tracked=bool(gone.any()))


def _shown(tracks: Tracks, now_s: float, settings: TrackerSettings) -> NDArray[np.bool_]:
    verdict = tracks.verdict_now(now_s, settings.verdict_s)
    unseen = verdict == np.int8(Verdict.UNSEEN)
    return np.asarray((verdict == np.int8(Verdict.CONFIRMED)) | (unseen & (tracks.score >= settings.publish_score)))


def _speed(tracks: Tracks, shown: NDArray[np.bool_]) -> float:
    sides = np.maximum(tracks.boxes.position[:, 2], 1.0)
    speed = np.hypot(tracks.boxes.velocity[:, 0], tracks.boxes.velocity[:, 1]) / sides
    moving = speed[shown & (speed >= STILL_WIDTHS_S) & (tracks.hits > 2)]
    return float(np.median(moving)) if len(moving) else 0.0


def _astray(entry: Entry, last: Entry, ids: frozenset[int]) -> bool:
    """Whether one of these tracks, seen on the last frame, is not seen now, or not where its speed would have it.

    The small model's boxes are compared with its own: the larger model's, to which tracks are corrected, differ anyway.
    """
    then, now = _rows(last), _rows(entry)
    tracks = {i: n for n, i in enumerate(entry.before.ids.tolist())}
    seen = [i for i in then if i in ids and i in tracks]
    if any(i not in now for i in seen):
        return True
    if not seen:
        return False
    velocity = entry.before.boxes.velocity[[tracks[i] for i in seen], :2]
    step = np.tile(velocity * (entry.at_s - last.at_s), 2)
    foretold = np.asarray(last.seen.detections.xyxy[[then[i] for i in seen]] + step, np.float32)
    measured = entry.seen.detections.xyxy[[now[i] for i in seen]]
    return bool((np.diagonal(iou(foretold, measured)) < FORETOLD_IOU).any())


def _rows(entry: Entry) -> dict[int, int]:
    """The observation of each track on a frame."""
    return {i: row for row, i in enumerate(entry.after.track_of.tolist()) if i >= 0}
