"""What an analysed frame has told the gate: how fast its tracks move, how many are new, whether it was a surprise.

Pure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.tracking.history import Entry
from edge_agent.tracking.tracks import TrackerSettings, Tracks, Verdict, predict
from pipeline.geometry import iou
from pipeline.policies.keep import News

FORETOLD_IOU = 0.6
"""A track whose box lies elsewhere than this much was not foretold well enough."""
STILL_WIDTHS_S = 0.1
"""Below this speed a track stands; parked cars say nothing about how fast the street is."""


@dataclass(frozen=True, slots=True)
class Tidings:
    """``speed_widths_s`` is the median of the tracks that move, in box widths per second; 0 where none does."""

    speed_widths_s: float
    births: int
    news: News


def tidings(entry: Entry, settings: TrackerSettings) -> Tidings:
    """What a frame's step of the tracker says. Only tracks that are published count: flicker is no news."""
    after = entry.after.tracks
    shown = _shown(after, entry.at_s, settings)
    new = shown & (after.born_s >= entry.at_s)
    astray = _astray(entry, after.ids[shown & ~new], settings)
    return Tidings(_speed(after, shown), int(np.count_nonzero(new)), News(elsewhere=bool(new.any()), tracked=astray))


def _shown(tracks: Tracks, now_s: float, settings: TrackerSettings) -> NDArray[np.bool_]:
    verdict = tracks.verdict_now(now_s, settings.verdict_s)
    unseen = verdict == np.int8(Verdict.UNSEEN)
    return np.asarray((verdict == np.int8(Verdict.CONFIRMED)) | (unseen & (tracks.score >= settings.publish_score)))


def _speed(tracks: Tracks, shown: NDArray[np.bool_]) -> float:
    sides = np.maximum(tracks.boxes.position[:, 2], 1.0)
    speed = np.hypot(tracks.boxes.velocity[:, 0], tracks.boxes.velocity[:, 1]) / sides
    moving = speed[shown & (speed >= STILL_WIDTHS_S) & (tracks.hits > 2)]
    return float(np.median(moving)) if len(moving) else 0.0


def _astray(entry: Entry, ids: NDArray[np.int64], settings: TrackerSettings) -> bool:
    """Whether one of these tracks has just been lost, or is not where it was expected."""
    expected = predict(entry.before, entry.at_s, settings)
    row = {i: n for n, i in enumerate(expected.ids.tolist())}
    found = {i: n for n, i in enumerate(entry.after.track_of.tolist())}
    old = [i for i in ids.tolist() if i in row]
    if any(i not in found and entry.before.seen_s[row[i]] >= entry.before.at_s for i in old):
        return True
    both = [i for i in old if i in found]
    foretold, measured = (
        expected.boxes.xyxy[[row[i] for i in both]],
        entry.seen.detections.xyxy[[found[i] for i in both]],
    )
    return bool((np.diagonal(iou(foretold, measured)) < FORETOLD_IOU).any())
