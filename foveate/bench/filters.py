"""Baselines that send a frame when the picture has changed enough, and how their thresholds are found.

After Chen et al., Glimpse (SenSys 2015): one threshold, found once on another camera. After Li et al., Reducto
(SIGCOMM 2020, section 5): a threshold for each segment of 5 s, predicted from how its differences are distributed.
Unlike there it is predicted from the segment before, so that no frame waits for its segment's end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foveate.bench.baseline_work import Grey, Work, changed_share
from foveate.bench.baselines import Fill, Rules, Way, over_link
from foveate.bench.bootstrap import SEGMENT_S
from pipeline.metrics.matching import Score, score_frame, total

THRESHOLDS = tuple(float(value) for value in np.geomspace(0.0005, 0.3, 20))
"""Shares of changed pixels that are tried."""
LEARN_SHARE = 0.4
BINS, NEIGHBOURS = 30, 5
_EDGES = np.concatenate([[0.0], np.geomspace(0.0001, 1.0, BINS)])


class StaticTrigger:
    """Wants a frame whose share of changed pixels, against the last one that was wanted, is above a threshold."""

    def __init__(self, grey: Sequence[Grey], threshold: float) -> None:
        self._grey, self.threshold = grey, threshold
        self._last: Grey | None = None

    def __call__(self, seq: int) -> bool:
        now = self._grey[seq]
        if self._last is not None and changed_share(now, self._last) <= self.threshold:
            return False
        self._last = now
        return True


def tune(work: Work, target: float, fill: Fill, until: int | None = None) -> float:
    """The highest threshold with which answers without latency reach ``target`` times the larger model's own F1.

    Frames up to ``until`` count. The lowest threshold where none does.
    """
    part = first_frames(work, len(work.shown) if until is None else until)
    for threshold in reversed(THRESHOLDS):
        if _agreement(part, StaticTrigger(part.grey, threshold), fill) >= target:
            return threshold
    return THRESHOLDS[0]


def first_frames(work: Work, count: int, start: int = 0) -> Work:
    """``count`` frames of a playlist from ``start`` on, as a playlist of their own."""
    chosen = slice(start, start + count)
    zero_s = work.captured_s[start]
    captured_s = tuple(at_s - zero_s for at_s in work.captured_s[chosen])
    parts = work.shown[chosen], work.small[chosen], work.large[chosen], work.jpeg_bytes[chosen]
    return Work(work.playlist, captured_s, *parts, work.grey[chosen], work.size[chosen], work.h264_bytes)


def _agreement(work: Work, trigger: StaticTrigger, fill: Fill) -> float:
    """F1 of what is answered without latency, against the larger model on every frame."""
    played = over_link(work, Way(None, None, 0), trigger, Rules(fill, in_flight=None))
    newest = {answer.state.seq: answer.state for answer in played.answers}
    scores = list[Score]()
    for seq, frame in enumerate(work.shown):
        nothing = frame.cloud[:0]
        scores.append(score_frame(newest[seq].boxes.get(frame.clip.label, nothing), frame.cloud))
    return total(scores).f1


def histogram(grey: Sequence[Grey]) -> NDArray[np.float64]:
    """How the differences from one frame to the next are distributed: shares (30,) by their size."""
    differences = [changed_share(now, before) for before, now in pairwise(grey)]
    counts = np.histogram(differences, _EDGES)[0].astype(np.float64)
    return np.asarray(counts / max(1.0, counts.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """What was learned: histograms (n, 30) of segments and the threshold (n,) that was best on each."""

    histograms: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    def predict(self, seen: NDArray[np.float64]) -> float:
        """The threshold of the nearest segments, the nearer the more it counts."""
        distance = np.linalg.norm(self.histograms - seen, axis=1)
        near = np.argsort(distance, kind="stable")[:NEIGHBOURS]
        weight = 1.0 / np.maximum(distance[near], 1e-6)
        return float(np.exp(np.average(np.log(self.thresholds[near]), weights=weight)))


def learn_segments(works: Sequence[Work], target: float) -> Segments:
    """Find the best threshold of each segment in the first 40 % of each clip. Each ``Work`` is one clip."""
    histograms, thresholds = [], []
    for work in works:
        length = max(2, round(SEGMENT_S * work.shown[0].clip.fps))
        for start in range(0, round(LEARN_SHARE * len(work.shown)) - length + 1, length):
            part = first_frames(work, length, start)
            histograms.append(histogram(part.grey))
            thresholds.append(tune(part, target, "hold"))
    return Segments(np.array(histograms), np.array(thresholds))


@dataclass(slots=True)
class SegmentTrigger:
    """A trigger whose threshold is predicted anew for each segment; the first has the median of what was learned."""

    work: Work
    learned: Segments
    _trigger: StaticTrigger = field(init=False)
    _segment: int = 0
    _first: int = 0

    def __post_init__(self) -> None:
        self._trigger = StaticTrigger(self.work.grey, float(np.median(self.learned.thresholds)))

    def __call__(self, seq: int) -> bool:
        segment = int(self.work.captured_s[seq] / SEGMENT_S)
        if segment != self._segment:
            self._trigger.threshold = self.learned.predict(histogram(self.work.grey[self._first : seq]))
            self._segment, self._first = segment, seq
        return self._trigger(seq)
