"""A model trained on the first part of a clip, and models held against each other on the rest, which none has seen."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from foveate.bench.playlist import Clip
from foveate.bench.reference import LARGE, LEAST_SCORE, detections, frames
from foveate.bench.streaming import SURE_SCORE
from foveate.models.scoring import Truth, as_truth, best_f1, read_mot, score
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.frames import Image
from pipeline.metrics.matching import total
from pipeline.timing import Clock

Say = Callable[[str], None]
LEARNED_SHARE = 0.6
"""The first frames of a clip, by time, are learned from; the rest is unseen."""
WARM_LOOKS = 5
_NIGHT_GAIN, _NIGHT_NOISE = 0.15, 6.0


@dataclass(frozen=True, slots=True)
class Looked:
    """One model on the unseen frames: its best F1 over score thresholds, F1 at the agent's own threshold, and the
    median time of a whole look on one thread, in milliseconds.
    """

    best_f1: float
    f1: float
    ms: float


def learned_frames(clip: Clip, say: Say) -> int:
    """How many frames from the first one are learned from."""
    return round(len(detections(clip.path, LARGE, say)) * LEARNED_SHARE)


def unseen_truth(clip: Clip, say: Say) -> dict[int, Truth]:
    """What is true of the unseen frames, by frame number from 0: the true boxes, all rows counted, or where there are
    none the larger model's sure detections.
    """
    seen, first = detections(clip.path, LARGE, say), learned_frames(clip, say)
    known = None if clip.truth is None else read_mot(clip.truth, clip.label)
    nothing = as_truth(Detections.none(), SURE_SCORE)
    found = {}
    for number in range(first, len(seen)):
        if known is None:
            found[number] = as_truth(seen[number].select(seen[number].label == clip.label), SURE_SCORE)
        else:
            true = known.get(number + 1, nothing)
            found[number] = Truth(true.xyxy, true.label, np.zeros(len(true.xyxy), bool))
    return found


def side_by_side(
    models: Mapping[str, Detector],
    clip: Clip,
    threshold: float,
    clock: Clock,
    say: Say,
    picture: "Picture | None" = None,
) -> dict[str, Looked]:
    """Every model on every unseen frame in turn, so that a busy machine slows all alike; ``picture`` changes frames."""
    first, truth = learned_frames(clip, say), unseen_truth(clip, say)
    found: dict[str, dict[int, Detections]] = {name: {} for name in models}
    times_ms: dict[str, list[float]] = {name: [] for name in models}
    for number, image in enumerate(frames(clip.path)):
        if number < first:
            continue
        shown = image if picture is None else picture(image)
        for name, model in models.items():
            begin_s = clock.now_s()
            seen = model.detect([shown], LEAST_SCORE)[0]
            times_ms[name].append((clock.now_s() - begin_s) * 1e3)
            found[name][number] = seen.select(seen.label == clip.label)
    return {
        name: Looked(
            best_f1(found[name], truth, [clip.label]),
            f1_at(found[name], truth, threshold),
            statistics.median(times_ms[name][WARM_LOOKS:]),
        )
        for name in models
    }


def teacher_f1(clip: Clip, say: Say) -> float:
    """The larger model's best F1 on the unseen frames."""
    seen, truth = detections(clip.path, LARGE, say), unseen_truth(clip, say)
    return best_f1({n: seen[n].select(seen[n].label == clip.label) for n in truth}, truth, [clip.label])


def f1_at(found: Mapping[int, Detections], truth: Mapping[int, Truth], threshold: float) -> float:
    """Pooled F1 at one score threshold; 0 where nothing is right."""
    scores = [score(seen.select(seen.score >= threshold), truth[number]) for number, seen in found.items()]
    pooled = total(scores)
    return pooled.f1 if pooled.true_positives else 0.0


Picture = Callable[[Image], Image]


def night(seed: int = 0) -> Picture:
    """Makes a frame look as by night: a seventh of the light, and the noise of a sensor at its limit. A stand-in for a
    clip of the same place by night, which there is not.
    """
    rng = np.random.default_rng(seed)

    def dark(image: Image) -> Image:
        grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY).astype(np.float32) * _NIGHT_GAIN
        noisy: NDArray[np.float32] = grey + rng.normal(0.0, _NIGHT_NOISE, grey.shape).astype(np.float32)
        return np.asarray(cv2.cvtColor(np.clip(noisy, 0, 255).astype(np.uint8), cv2.COLOR_GRAY2BGR), np.uint8)

    return dark
