"""What is known of a frame that the larger model has not looked at as a whole: what its tracks say. Pure."""

from collections.abc import Sequence

import numpy as np

from edge_agent.lessons.labels import Annotation, CleaningSettings, Sightings, cut
from edge_agent.tracking.history import Entry
from edge_agent.tracking.tracks import TrackerSettings, Verdict
from pipeline.detections import Detections, Source
from pipeline.geometry import BoxArray, Size, iou


def follow(
    at: Entry,
    around: Sequence[Entry],
    motion: BoxArray,
    size: Size,
    tracking: TrackerSettings,
    cleaning: CleaningSettings,
) -> Annotation | None:
    """What is known of a frame by tracks that the larger model has found on others shortly before or after.

    None where something is in view that it has not found lately, or where nothing is: then a frame teaches by its own
    whole answer alone. Where it has denied a box, where the box and its track are apart, and where something moves
    (``motion`` (m, 4)) that nobody has a box of, nobody knows.
    """
    looks = [e for e in around if e.seq != at.seq and e.looked and abs(e.at_s - at.at_s) <= cleaning.reach_s]
    sightings = Sightings([*looks, at], at.at_s, cleaning)
    found, ids = at.seen.detections, at.after.track_of
    verdict = at.after.tracks.verdict_now(at.at_s, tracking.verdict_s)
    denied = set(at.after.tracks.ids[verdict == np.int8(Verdict.DENIED)].tolist())
    rows: list[int] = []
    unclear: list[int] = []
    for row, track_id in enumerate(ids.tolist()):
        if track_id in denied or at.seen.verdict[row] == np.int8(Verdict.DENIED):
            unclear.append(row)
        elif track_id in sightings.hits:
            apart = iou(found.xyxy[row : row + 1], sightings.place(track_id)[None])[0, 0] < cleaning.same_iou
            (unclear if apart else rows).append(row)
        elif found.score[row] >= tracking.publish_score:
            return None
        else:
            unclear.append(row)
    if not rows:
        return None
    known = _known(found, at, rows, sightings)
    missed = sightings.places([i for i in sightings.hits if i not in ids and sightings.between(i) is not None])
    ignored = np.concatenate([found.xyxy[unclear], missed.xyxy, _unboxed(motion, found.xyxy)])
    return cut(known, ignored, size)


def _known(found: Detections, at: Entry, rows: list[int], sightings: Sightings) -> Detections:
    """The boxes as the tracks have them, which weigh them against those before, with the larger model's scores."""
    ids = at.after.track_of[rows]
    row_of = {i: row for row, i in enumerate(at.after.tracks.ids.tolist())}
    xyxy = at.after.tracks.boxes.xyxy[[row_of[i] for i in ids.tolist()]]
    score = [min(hit.score for hit in sightings.nearest(i)) for i in ids.tolist()]
    return Detections.of(xyxy, score, found.label[rows], Source.TRACK, ids)


def _unboxed(motion: BoxArray, boxes: BoxArray) -> BoxArray:
    """The moving places that touch no box."""
    if not len(motion) or not len(boxes):
        return motion
    return np.asarray(motion[iou(motion, boxes).max(axis=1) <= 0.0], np.float32)
