"""Which places of an analysed frame deserve a second look. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.tracking.history import Entry
from edge_agent.tracking.tracks import TrackerSettings, Tracks
from pipeline.geometry import BoxArray, Size, iou
from pipeline.policies.gain import GainModel
from pipeline.policies.offload import Candidate, Why
from pipeline.policies.places import Array, PlaceKind, Places

_UNSEEN, _CONFIRMED, _DENIED, _MISSED, _MOTION = (np.int8(kind) for kind in PlaceKind)
"""As numpy numbers, which compare with arrays several times faster than members of an enumeration."""


@dataclass(frozen=True, slots=True)
class CandidateSettings:
    """When a place may be looked at again.

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


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What a second look could bring on one frame.

    ``places`` are all that are known, with their ``features`` (n, d) and predicted ``gain`` (n,). ``frame_gain`` is
    what a look at the whole frame is worth: the sum, and what the edge does not see at all.
    """

    places: Places
    features: Array
    gain: Array
    frame_gain: float


def survey(
    entry: Entry,
    motion: BoxArray,
    size: Size,
    model: GainModel,
    settings: CandidateSettings,
    tracking: TrackerSettings,
) -> Survey:
    """Survey an analysed frame of ``size``; ``motion`` (n, 4) are its moving places, in frame pixels."""
    known = places(entry, motion, settings, tracking)
    features = known.features(size)
    gain = model.gain(features)
    return Survey(known, features, gain, float(gain.sum()) + model.unseen_gain)


def as_candidates(known: Places, gain: Array, settings: CandidateSettings, *, due_only: bool) -> tuple[Candidate, ...]:
    """The places with their gain (n,); ``due_only`` those that the rules allow to be looked at now."""
    rows = due(known, settings).nonzero()[0].tolist() if due_only else range(len(known))
    boxes, whys = known.xyxy.tolist(), _why(known, settings)
    gains, scores = gain.tolist(), known.score.tolist()
    return tuple(
        Candidate((x1, y1, x2, y2), whys[i], gains[i], scores[i]) for i in rows for x1, y1, x2, y2 in [boxes[i]]
    )


_WHY_KIND = {PlaceKind.MISSED: Why.MISSED, PlaceKind.MOTION: Why.MOTION}


def _why(known: Places, settings: CandidateSettings) -> list[Why]:
    whys = []
    rows = zip(known.kind.tolist(), known.since_verdict_s.tolist(), known.score.tolist(), strict=True)
    for kind, since_verdict_s, score in rows:
        if kind in _WHY_KIND:
            whys.append(_WHY_KIND[PlaceKind(kind)])
        elif since_verdict_s < float("inf"):
            whys.append(Why.UNVERIFIED)
        else:
            whys.append(Why.UNCERTAIN if score < settings.sure_above else Why.NEW_TRACK)
    return whys


def places(entry: Entry, motion: BoxArray, settings: CandidateSettings, tracking: TrackerSettings) -> Places:
    """All places of one frame: its detections, the tracks it missed, the motion (n, 4) that touches no detection."""
    found, tracks = entry.seen.detections, entry.after.tracks
    tracked_xyxy = tracks.boxes.xyxy  # once: it is computed
    row_of = {i: row for row, i in enumerate(tracks.ids.tolist())}
    rows = np.array([row_of.get(i, -1) for i in entry.after.track_of.tolist()], dtype=np.intp)
    missed, moving = _missed(tracks, rows, settings), _free(motion, found.xyxy)[: settings.most_motion]
    at = np.concatenate([rows, missed, np.full(len(moving), -1)]).astype(np.intp)
    verdict_at_s, age_s, hits, speed, unseen_for_s, score_before, held = _of_tracks(entry, tracking)[:, at]
    kind = held.astype(np.int8)  # the first kinds have the values of the verdicts
    kind[len(rows) : len(rows) + len(missed)], kind[len(rows) + len(missed) :] = _MISSED, _MOTION
    score = np.concatenate([found.score, tracks.score[missed], np.zeros(len(moving))]).astype(np.float64)
    xyxy = np.concatenate([found.xyxy, tracked_xyxy[missed], moving]).astype(np.float32)
    return Places(
        xyxy=xyxy,
        kind=kind,
        published=_published(kind, held, score, unseen_for_s, tracking),
        score=score,
        score_change=np.where(at >= 0, score - score_before, 0.0),
        since_verdict_s=entry.at_s - verdict_at_s,
        age_s=age_s,
        hits=hits,
        speed=speed,
        misfit=_misfit(xyxy, tracked_xyxy, at),
        unseen_for_s=unseen_for_s,
        tracked=at >= 0,
    )


def _of_tracks(entry: Entry, tracking: TrackerSettings) -> Array:
    """What the tracks say (7, m + 1): a column per track and a last one, which index -1 finds, for places without."""
    tracks = entry.after.tracks
    before = dict(zip(entry.before.ids.tolist(), entry.before.score.tolist(), strict=True))
    scores = zip(tracks.ids.tolist(), tracks.score.tolist(), strict=True)
    out = np.zeros((7, len(tracks) + 1))
    out[0, -1] = -np.inf
    out[0, :-1] = tracks.verdict_at_s
    out[1, :-1] = entry.at_s - tracks.born_s
    out[2, :-1] = tracks.hits
    out[3, :-1] = np.abs(tracks.boxes.velocity[:, :2]).max(axis=1, initial=0.0)
    out[3, :-1] /= np.maximum(tracks.boxes.position[:, 3], 1.0)
    out[4, :-1] = entry.at_s - tracks.seen_s
    out[5, :-1] = [before.get(i, score) for i, score in scores]
    out[6, :-1] = tracks.verdict_now(entry.at_s, tracking.verdict_s)
    return out


def _missed(tracks: Tracks, rows: NDArray[np.intp], settings: CandidateSettings) -> NDArray[np.intp]:
    """Rows of the tracks that were seen lately, not denied, and not observed on this frame."""
    lately = tracks.at_s - tracks.seen_s <= settings.missed_s
    lately &= tracks.verdict != _DENIED
    lately[rows[rows >= 0]] = False
    return lately.nonzero()[0]


def _free(motion: BoxArray, boxes: BoxArray) -> BoxArray:
    """The moving places that touch no box."""
    if not len(motion):
        return np.empty((0, 4), np.float32)
    if not len(boxes):
        return motion
    return np.asarray(motion[iou(motion, boxes).max(axis=1) <= 0.0], np.float32)


def _misfit(xyxy: BoxArray, track_boxes: BoxArray, at: NDArray[np.intp]) -> Array:
    """One minus the overlap (n,) of each place with its track's box; 0 without a track."""
    out = np.zeros(len(at))
    tracked = (at >= 0).nonzero()[0]
    out[tracked] = 1.0 - iou(xyxy[tracked], track_boxes[at[tracked]]).diagonal()
    return out


def _published(
    kind: NDArray[np.int8], held: Array, score: Array, unseen_for_s: Array, tracking: TrackerSettings
) -> NDArray[np.bool_]:
    """Whether a box is published at each place (n,) while nobody looks again; see ``analysed_answer``.

    ``held`` is the verdict that its track still holds.
    """
    confirmed = held == _CONFIRMED
    box = np.where(confirmed, score >= tracking.low_score, (held == _UNSEEN) & (score >= tracking.publish_score))
    coast_s = np.where(confirmed, tracking.confirmed_coast_s, tracking.coast_s)
    coasting = (unseen_for_s <= coast_s) & (confirmed | (score >= tracking.publish_score))
    return np.where(kind <= _DENIED, box, (kind == _MISSED) & coasting)


def due(known: Places, settings: CandidateSettings) -> NDArray[np.bool_]:
    """Which places (n,) the rules allow to be looked at now."""
    still = known.speed < settings.still_speed
    wait_s = np.where(still, settings.still_recheck_s, settings.recheck_s)
    box = (known.score >= settings.sure_below) & (known.since_verdict_s >= wait_s - 1e-6)
    missed = np.isfinite(known.since_verdict_s)
    return np.where(known.kind <= _DENIED, box, (known.kind == _MOTION) | missed)
