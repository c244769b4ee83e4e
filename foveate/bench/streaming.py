"""Streaming scores: what was known when it was needed, held against what was there.

After Li, Wang and Ramanan, Towards Streaming Perception (ECCV 2020, section 3): at each frame's moment the newest state
that has been published by then is scored, so that an answer that comes late counts as the older one that it left
standing. Here with F1 at IoU 0.5 instead of average precision, and with a tolerance: ``within_s`` after capture is
still in time (0: strictly at the moment of capture). A state of a later frame never counts for an earlier one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foveate.bench.accuracy import read_truth
from foveate.bench.playlist import Clip, Playlist
from foveate.bench.reference import LARGE, Say, detections
from foveate.models.scoring import Truth, as_truth
from pipeline.geometry import BoxArray
from pipeline.metrics.matching import Score, score_frame, total
from pipeline.results import Result

SURE_SCORE = 0.5
"""A detection of the larger model with this score is there."""
UNSURE_SCORE = 0.3
"""From here up to ``SURE_SCORE`` the larger model does not know: such a detection is neither right nor wrong."""
_NOTHING: BoxArray = np.empty((0, 4), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What was published for one frame: when, on the clock of ``captured_s``, and the boxes (n, 4) by label."""

    seq: int
    published_s: float
    boxes: Mapping[str, BoxArray]


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """One frame of a playlist: the clip that it is from, what it shows, and what is there.

    ``cloud`` is what the larger model sees on the whole frame: the answer of a cloud without latency. ``strict`` is
    the truth by the larger model's sure detections alone; the same as ``truth`` where there are true boxes.
    """

    clip: Clip
    truth: Truth
    strict: Truth
    cloud: BoxArray


def frames_shown(playlist: Playlist, say: Say) -> list[Shown]:
    """Every frame of a playlist, with its true boxes, or where there are none those of the larger model.

    Of a person whom it sees with 0.48 on one frame and 0.52 on the next it cannot be the judge: where it is unsure, a
    detection is ignored, as the true boxes with confidence 0 are.
    """
    return [shown for part in playlist.parts for shown in _part(part.clip, say)[part.first :][: part.frames]]


def _part(clip: Clip, say: Say) -> list[Shown]:
    found = detections(clip.path, LARGE, say)
    known = None if clip.truth is None else read_truth(clip.truth, clip.label)
    nothing = Truth(_NOTHING, np.empty(0, np.str_), np.empty(0, bool))
    shown = []
    for number, seen in enumerate(found):
        seen = seen.select((seen.label == clip.label) & (seen.score >= UNSURE_SCORE))
        sure = as_truth(seen, SURE_SCORE)
        if known is not None:
            true = known.get(number + 1, nothing)
            shown.append(Shown(clip, true, true, sure.xyxy))
        else:
            judged = Truth(seen.xyxy, seen.label, seen.score < SURE_SCORE)
            shown.append(Shown(clip, judged, sure, sure.xyxy))
    return shown


def states(results: Iterable[Result], captured_s: Mapping[int, float]) -> list[State]:
    """What a run published, in the order of publishing. Results of frames without a known capture are left out."""
    out = []
    for result in results:
        if result.seq not in captured_s:
            continue
        labels = {found.label for found in result.detections}
        boxes = {
            label: np.array([f.box for f in result.detections if f.label == label], np.float32) for label in labels
        }
        out.append(State(result.seq, captured_s[result.seq] + (result.timings_ms.total or 0.0) / 1000, boxes))
    return sorted(out, key=lambda state: state.published_s)


def newest_in_time(
    published: Sequence[State], captured_s: Mapping[int, float], frames: int, within_s: float
) -> list[State | None]:
    """For each frame in order, the newest frame's state published by ``within_s`` after its capture.

    ``published`` is in the order of publishing, which also decides between two at the same moment. None for a frame by
    which nothing has been published.
    """
    out, newest, upcoming = list[State | None](), list[State](), 0
    for seq in range(frames):
        due_s = captured_s[seq] + within_s + 1e-9
        while upcoming < len(published) and published[upcoming].published_s <= due_s:
            newest.append(published[upcoming])
            upcoming += 1
        state = max((s for s in reversed(newest) if s.seq <= seq), key=lambda s: (s.seq, s.published_s), default=None)
        newest = [s for s in newest if state is None or s.seq >= state.seq]
        out.append(state)
    return out


def streaming_scores(
    published: Sequence[State],
    shown: Sequence[Shown],
    captured_s: Mapping[int, float],
    within_s: float,
    *,
    strict: bool = False,
) -> list[Score]:
    """The score of each frame in order: of the newest frame's state published by ``within_s`` after its capture.

    ``published`` is in the order of publishing. A frame by which nothing has been published scores as empty.
    """
    newest = newest_in_time(published, captured_s, len(shown), within_s)
    return [score_state(state, frame, strict=strict) for state, frame in zip(newest, shown, strict=True)]


def score_state(state: State | None, frame: Shown, *, strict: bool = False) -> Score:
    """Right, wrong and missed of a state, taken for what the frame shows."""
    found = _NOTHING if state is None else state.boxes.get(frame.clip.label, _NOTHING)
    truth = frame.strict if strict else frame.truth
    return score_frame(found, truth.xyxy, truth.ignored)


def cloud_scores(shown: Sequence[Shown]) -> list[Score]:
    """The scores of a cloud that answers every frame at the moment of its capture."""
    return [score_frame(frame.cloud, frame.truth.xyxy, frame.truth.ignored) for frame in shown]


def gap_recovery(f1: float, f1_edge: float, f1_cloud: float) -> float:
    """The share of the way from the edge's F1 to the cloud's that was made; NaN where the gap is under 0.03."""
    gap = f1_cloud - f1_edge
    return (f1 - f1_edge) / gap if gap >= 0.03 else float("nan")


def pooled(scores: Iterable[Score]) -> float:
    """F1 of all frames together."""
    return total(scores).f1
