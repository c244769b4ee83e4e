"""How much of the larger model's gain is had where only some frames are offloaded: the gain model and its rivals.

A frame that is chosen is looked at as a whole by the larger model, whoever chose it, and the answer is there at once;
so nothing but the choice differs. See benchmarks/README.md, the group ``in-time``.
"""

import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np

from edge_agent.candidates import Survey, as_candidates
from edge_agent.capture.settings import CaptureSettings
from edge_agent.gate import Gate
from edge_agent.settings import CameraSettings
from edge_agent.tracking.history import Entry
from foveate.bench.accuracy import read_truth
from foveate.bench.main_job import DEFAULT_CLIP, DEFAULT_TRUTH, LABEL
from foveate.bench.reference import LARGE, SMALL, detections, frames
from foveate.calibrate.replay import Looked, Replay, fit_gain
from foveate.models.scoring import Truth
from pipeline.detections import Detections
from pipeline.geometry import Size
from pipeline.metrics.matching import Score, score_frame, total
from pipeline.policies.gain import PRIOR, GainModel
from pipeline.policies.offload import Adaptive, OffloadView
from pipeline.policies.outcomes import changed_places
from pipeline.timing import MonotonicClock

FPS = 10.0
"""Of the clip."""
EVERY = 2
"""One frame in so many is analysed: five a second, as by default."""
LEARN_SHARE = 0.4
SEEDS, SHORT_SEEDS = 5, 2
CLOUD_SCORE = 0.5
WINDOW = 30
"""Values that a new one is ranked among: six seconds."""
_NOTHING = Truth(np.empty((0, 4), np.float32), np.empty(0, np.str_), np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """Every frame of the clip as both models see it, and the true boxes by frame number from 1.

    Motion is found as if the frames of the same phase of the sampling were all that there is.
    """

    looked: tuple[Looked, ...]
    truth: Mapping[int, Truth]

    @property
    def learn_until(self) -> int:
        """The number of frames to learn from."""
        return round(LEARN_SHARE * len(self.looked))


class Value(Protocol):
    """What choosing a frame is worth to one of the rivals; ``answered`` lets it learn."""

    def of(self, frame: Looked, entry: Entry, replay: Replay) -> float: ...

    def answered(self, before: Detections, after: Detections) -> None: ...


class Quota:
    """Chooses the frames that rank among the best ``share`` of the latest, and never more than that share of all.

    What was left unused is to be used up within the window, so that values that fall slowly are not passed over.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._latest: deque[float] = deque(maxlen=WINDOW)
        self._seen = self._chosen = 0

    def take(self, value: float) -> bool:
        """Whether to choose a frame of this value."""
        self._seen += 1
        self._latest.append(value)
        unused = self.share * self._seen - self._chosen
        rank = min(1.0, self.share + max(0.0, unused - 1.0) / WINDOW)
        if unused < 1 or value < float(np.quantile(self._latest, 1 - rank)):
            return False
        self._chosen += 1
        return True


class Learned:
    """The product's gain model; learns from what it asked about."""

    def __init__(self, model: GainModel) -> None:
        self.model = model
        self._seen: Survey | None = None

    def of(self, frame: Looked, entry: Entry, replay: Replay) -> float:
        self._seen = replay.survey(frame, entry, self.model)
        return self._seen.frame_gain

    def answered(self, before: Detections, after: Detections) -> None:
        if self._seen is None:
            raise RuntimeError("an answer came before a question")
        changed, unseen = changed_places(self._seen.places.xyxy, before, after)
        ones = np.ones(len(changed))
        self.model = self.model.learn(self._seen.features, changed, ones).learn_unseen(unseen)


@dataclass(frozen=True, slots=True)
class Rule:
    """A value that does not learn."""

    value: Callable[[Looked, Entry, Replay], float]

    def of(self, frame: Looked, entry: Entry, replay: Replay) -> float:
        return self.value(frame, entry, replay)

    def answered(self, before: Detections, after: Detections) -> None:
        """Learn nothing."""


def random_value(rng: Random) -> Rule:
    """A value that knows nothing."""
    return Rule(lambda *_: rng.random())


def min_confidence(frame: Looked, entry: Entry, replay: Replay) -> float:
    """How unsure the small model is of the least sure box that is published."""
    least = replay.survey(frame, entry, PRIOR).places.least_published_score
    return 0.0 if least is None else 1.0 - least


def oracle(truth: Mapping[int, Truth]) -> Rule:
    """The errors on this frame that asking would really mend."""

    def mended(frame: Looked, entry: Entry, replay: Replay) -> float:
        before, after = (_score(found, truth, frame.seq) for found in replay.what_if_asked(frame, entry))
        return (before.false_positives + before.false_negatives) - (after.false_positives + after.false_negatives)

    return Rule(mended)


def _score(found: Detections, truth: Mapping[int, Truth], seq: int) -> Score:
    true = truth.get(seq + 1, _NOTHING)
    return score_frame(found.xyxy, true.xyxy, true.ignored)


def load(clip: Path, truth: Path, say: Callable[[str], None]) -> Clip:
    """Both models' answers on every frame, and where it moves. Raises ConfigError, SourceError and ModelError."""
    true = read_truth(truth, LABEL)
    small, large = detections(clip, SMALL, say), detections(clip, LARGE, say)
    settings = _settings()
    gates = [Gate(settings) for _ in range(EVERY)]
    looked = []
    for seq, image in enumerate(frames(clip)):
        gate, size = gates[seq % EVERY], Size(image.shape[1], image.shape[0])
        gate.fit(size)
        motion = gate.look(image, seq / FPS).motion
        edge = _wanted(small[seq], settings.tracker.low_score)
        looked.append(Looked(seq, seq / FPS, size, edge, _wanted(large[seq], CLOUD_SCORE), motion))
    return Clip(tuple(looked), true)


def _settings() -> CameraSettings:
    return CameraSettings("clip", CaptureSettings(""), objects=frozenset({LABEL}))


def _wanted(found: Detections, least: float) -> Detections:
    return found.select((found.label == LABEL) & (found.score >= least))


def play(clip: Clip, start: int, value: Value, quota: Quota | None) -> tuple[float, float]:
    """F1 over all frames from ``start`` on, and the share of the analysed ones that was offloaded.

    Without a quota every frame with a value above 0 is chosen.
    """
    replay, scores = Replay(_settings()), []
    analysed = chosen = 0
    for number, frame in enumerate(clip.looked[start:]):
        if number % EVERY:
            scores.append(_score(replay.carried(frame.scene_s, frame.size), clip.truth, frame.seq))
            continue
        analysed += 1
        worth = value.of(frame, replay.observe(frame), replay)
        if worth > 0 if quota is None else quota.take(worth):
            chosen += 1
            value.answered(*replay.ask(frame))
        scores.append(_score(replay.published(frame), clip.truth, frame.seq))
    return total(scores).f1, chosen / analysed


def recovery(clip: Clip, share: float, seeds: Sequence[int], learned: GainModel) -> dict[str, list[float]]:
    """Gap recovery of each rival, one figure per seed: (F1 - F1 of the edge) / (F1 of the cloud - F1 of the edge).

    A seed is another first frame, so another phase of the sampling, and other random numbers.
    """
    out: dict[str, list[float]] = {}
    for seed in seeds:
        start = clip.learn_until + seed
        edge, _ = play(clip, start, Rule(lambda *_: 0.0), None)
        cloud, _ = play(clip, start, Rule(lambda *_: 1.0), None)
        rivals: dict[str, Value] = {
            "learned": Learned(learned),
            "random": random_value(Random(seed)),
            "min_confidence": Rule(min_confidence),
            "oracle": oracle(clip.truth),
        }
        for name, value in rivals.items():
            f1, offloaded = play(clip, start, value, Quota(share))
            if offloaded > share:
                raise RuntimeError(f"{name} offloaded {offloaded:.3f} of the frames where {share} were allowed")
            out.setdefault(name, []).append((f1 - edge) / (cloud - edge))
    return out


def learn(clip: Clip) -> GainModel:
    """The gain model after the part of the clip that is there to learn from, all phases of the sampling."""
    model, settings = PRIOR, _settings()
    part = clip.looked[: clip.learn_until]
    for phase in range(EVERY):
        model = fit_gain(part[phase::EVERY], settings, model, seed=phase)
    return model


def decision_ms(clip: Clip, model: GainModel) -> float:
    """Median time per analysed frame of survey, prediction and decision."""
    replay, clock, times_s = Replay(_settings()), MonotonicClock(), []
    policy, candidates = Adaptive(_settings().offload), _settings().candidates
    for frame in clip.looked[::EVERY]:
        entry = replay.observe(frame)
        started_s = clock.now_s()
        seen = replay.survey(frame, entry, model)
        places = as_candidates(seen.places, seen.gain, candidates, due_only=True)
        policy.decide(OffloadView(places, 150.0, {}, {}, None, 0.0, reachable=True, price_per_kb=0.01))
        times_s.append(clock.now_s() - started_s)
    return 1000 * statistics.median(times_s)


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """Figures ``gr20``, ``gr20_random``, ``gr20_min_confidence`` and ``decision_ms``; further ones as ``gr50``.

    Raises ConfigError where clip or truth are absent.
    """
    clip = load(DEFAULT_CLIP, DEFAULT_TRUTH, say)
    say("fitting the gain model")
    model, seeds = learn(clip), range(SHORT_SEEDS if short else SEEDS)
    figures = {"decision_ms": decision_ms(clip, model)}
    say("choosing 20 % of the frames")
    at_20 = {name: statistics.median(values) for name, values in recovery(clip, 0.2, seeds, model).items()}
    figures |= {f"gr20{'' if name == 'learned' else '_' + name}": value for name, value in at_20.items()}
    if not short:
        say("choosing 50 % of the frames")
        at_50 = {name: statistics.median(values) for name, values in recovery(clip, 0.5, seeds, model).items()}
        figures |= {f"gr50{'' if name == 'learned' else '_' + name}": value for name, value in at_50.items()}
    return figures
