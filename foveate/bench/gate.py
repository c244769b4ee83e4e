"""What the gate leaves out, and what that costs: the product's gate, small model and tracker without a cloud.

The gate's looks are the real ones on the real pictures. The small model's boxes come from the cache of dense answers,
which are the same that it would give. Every chain sees the same frames; the dense one analyses every sampled frame.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

import cv2
import numpy as np

from edge_agent.frame_work import answer, wanted
from edge_agent.gate import Gate
from edge_agent.settings import CameraSettings
from edge_agent.tracking.history import Entry, Tracker
from foveate.bench.accuracy import read_truth
from foveate.bench.playlist import BOTTLE, ONE_BY_ONE, VTEST, Clip
from foveate.bench.reference import LARGE, SMALL, Say, detections, frames
from foveate.bench.serial import run_plan
from foveate.models.scoring import Truth, as_truth
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.metrics.matching import Score, score_frame, total
from pipeline.timing import MonotonicClock

PHASES = (0, 1, 2, 3, 4)
"""A clip begins so many frames late: sampling falls on other frames, and learning begins elsewhere."""
SURE_SCORE = 0.5
TIMED_FRAMES, TIMED_PASSES = 150, 3


class Chain:
    """One camera's gate and tracker over a clip's small-model boxes, and the score of what it answers."""

    def __init__(self, settings: CameraSettings, label: str, phase: int = 0) -> None:
        self._settings, self._label, self._phase = settings, label, phase
        self._gate, self._tracker = Gate(settings), Tracker(settings.tracker)
        self.sampled = self.kept = 0
        self.scores: list[Score] = []

    def take(self, seq: int, at_s: float, image: Image, small: Detections, truth: Truth) -> None:
        """Answer one frame as the product would, and score the answer against the truth of its clip's label."""
        if seq < self._phase:
            return
        size = Size(image.shape[1], image.shape[0])
        region = self._gate.fit(size)
        entry: Entry | None = None
        if self._gate.due(at_s):
            self.sampled += 1
            if self._gate.look(image, at_s).keep:
                self.kept += 1
                found = small.select(small.score >= self._settings.tracker.low_score)
                entry = self._tracker.observe(seq, at_s, wanted(found, self._settings, region))
                self._gate.tracks(entry)
        shown = answer(self._tracker, entry, at_s, size, self._settings)
        boxes = shown.xyxy[shown.label == self._label]
        there = truth.label == self._label
        self.scores.append(score_frame(boxes, truth.xyxy[there], truth.ignored[there]))

    @property
    def dropped(self) -> float:
        """The share of the sampled frames that was not analysed."""
        return 1 - self.kept / self.sampled

    @property
    def score(self) -> Score:
        return total(self.scores)


def camera(clip: Clip) -> CameraSettings:
    """The settings that ``foveate run CLIP`` has."""
    return run_plan(clip.path).agent.cameras[0]


def uniform(settings: CameraSettings, share: float = 1.0) -> CameraSettings:
    """The same camera, which analyses every sampled frame, at a share of the rate."""
    return replace(
        settings, change_detection="uniform", sampling="fixed", sample_fps=settings.sample_fps * min(share, 1.0)
    )


def play(clip: Clip, chains: Sequence[Chain], truth: Sequence[Truth], say: Say) -> None:
    """Show all chains every frame of a clip."""
    small = detections(clip.path, SMALL, say)
    for seq, image in enumerate(frames(clip.path)):
        for chain in chains:
            chain.take(seq, seq / clip.fps, image, small[seq], truth[seq])


@dataclass(frozen=True, slots=True)
class Idle:
    """One phase of an idle clip, gated and dense."""

    sampled: int
    kept: int
    gated: Score
    dense: Score


def idle(clip: Clip, phases: Sequence[int], say: Say) -> list[Idle]:
    """Gate against dense analysis on an idle clip, by phase; the larger model's sure boxes stand for the truth."""
    say(f"the gate on {clip.name}")
    settings = camera(clip.require())
    truth = [as_truth(found, SURE_SCORE) for found in detections(clip.path, LARGE, say)]
    pairs = [(Chain(settings, clip.label, p), Chain(uniform(settings), clip.label, p)) for p in phases]
    play(clip, [chain for pair in pairs for chain in pair], truth, say)
    return [Idle(gated.sampled, gated.kept, gated.score, dense.score) for gated, dense in pairs]


def busy(phases: Sequence[int], say: Say) -> list[tuple[float, float, float]]:
    """On vtest, by phase: F1 of the gate, F1 of uniform sampling with as many analysed frames, share left out."""
    say("the gate on vtest")
    settings, known = camera(VTEST.require()), read_truth(VTEST.truth or VTEST.path, VTEST.label)
    nothing = as_truth(Detections.none(), SURE_SCORE)
    truth = [known.get(n + 1, nothing) for n in range(len(detections(VTEST.path, SMALL, say)))]
    gated = [Chain(settings, VTEST.label, phase) for phase in phases]
    play(VTEST, gated, truth, say)
    budget = [uniform(settings, chain.kept / chain.sampled) for chain in gated]
    even = [Chain(one, VTEST.label, phase) for one, phase in zip(budget, phases, strict=True)]
    play(VTEST, even, truth, say)
    return [(g.score.f1, e.score.f1, g.dropped) for g, e in zip(gated, even, strict=True)]


def look_ms(say: Say) -> float:
    """Milliseconds of one frame of 768x576 in the gate, on one thread: the median over frames of the least of passes.

    The passes are identical, so what one takes longer than another is the machine's other work.
    """
    say("the time that the gate takes")
    settings, small = camera(VTEST.require()), detections(VTEST.path, SMALL, say)
    pictures = list(islice(frames(VTEST.path), TIMED_FRAMES))
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        passes = [list(_timed(settings, pictures, small)) for _ in range(TIMED_PASSES)]
    finally:
        cv2.setNumThreads(threads)
    return float(np.median(np.min(passes, axis=0))) * 1000


def _timed(settings: CameraSettings, pictures: Sequence[Image], small: Sequence[Detections]) -> Iterator[float]:
    """Seconds in the gate for each picture, all of which are looked at, tracks and all."""
    clock, gate, tracker = MonotonicClock(), Gate(settings), Tracker(settings.tracker)
    gate.fit(Size(pictures[0].shape[1], pictures[0].shape[0]))
    for n, (image, found) in enumerate(zip(pictures, small, strict=False)):
        started_s = clock.now_s()
        kept = gate.look(image, n / settings.sample_fps).keep
        spent_s = clock.now_s() - started_s
        if kept:
            entry = tracker.observe(n, n / settings.sample_fps, found.select(found.score >= settings.tracker.low_score))
            started_s = clock.now_s()
            gate.tracks(entry)
            spent_s += clock.now_s() - started_s
        yield spent_s


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """The gate's figures, each the median over phases; one phase where it is to be short."""
    phases = PHASES[:1] if short else PHASES
    clips = {clip.name: idle(clip, phases, say) for clip in (ONE_BY_ONE, BOTTLE)}
    street = busy(phases, say)
    together = list(zip(*clips.values(), strict=True))
    figures = {
        "idle_dropped": median(
            1 - sum(one.kept for one in both) / sum(one.sampled for one in both) for both in together
        ),
        "idle_f1_ratio": median(min(one.gated.f1 / one.dense.f1 for one in both) for both in together),
        "vtest_gate_minus_uniform": median(gated - even for gated, even, _ in street),
        "gate_ms": look_ms(say),
        "gate_vtest_dropped": median(dropped for _, _, dropped in street),
    }
    for name, runs in clips.items():
        figures[f"gate_dropped_{name}"] = median(1 - one.kept / one.sampled for one in runs)
        figures[f"gate_f1_{name}"] = median(one.gated.f1 for one in runs)
        figures[f"gate_dense_f1_{name}"] = median(one.dense.f1 for one in runs)
    return figures
