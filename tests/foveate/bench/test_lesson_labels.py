"""Lessons are held against the truth beside the single looks that they are made of."""

import numpy as np
import pytest

from foveate.bench.lesson_labels import compare
from foveate.models.scoring import Truth
from pipeline.detections import Detections
from pipeline.geometry import Size

SIZE = Size(640, 480)


def noisy(true: Truth, random: np.random.Generator) -> Detections:
    """What a larger model sees: one in eight missed or faint, boxes a little off, now and then what is not there."""
    count = len(true.xyxy)
    values = np.where(random.random(count) < 0.06, random.uniform(0.25, 0.5, count), random.uniform(0.5, 1.0, count))
    there = random.random(count) >= 0.06
    boxes = true.xyxy + random.normal(0, 2.0, true.xyxy.shape)
    extra = random.random() < 0.4
    x, y = random.uniform(0, 600), random.uniform(0, 400)
    return Detections.of(
        [*boxes[there].tolist(), *([[x, y, x + 30, y + 70]] if extra else [])],
        [*values[there].tolist(), *([float(random.uniform(0.3, 0.8))] if extra else [])],
        ["person"] * (int(there.sum()) + extra),
    )


def walkers(seconds: float) -> Truth:
    """Six people who walk through the picture at 25 to 75 pixels per second, in rows of their own."""
    rows = np.arange(6)
    left = (40.0 + 90 * rows + (25 + 10 * rows) * seconds) % 600
    top = 20.0 + 70 * rows
    boxes = np.stack([left, top, left + 28, top + 64], axis=1).astype(np.float32)
    return Truth(boxes, np.array(["person"] * 6), np.zeros(6, bool))


@pytest.mark.parametrize(("apart_s", "gain"), [(0.1, 0.02), (0.2, 0.02), (0.5, 0.0)])
def test_lessons_are_nearer_to_the_truth_than_the_larger_models_single_looks(apart_s: float, gain: float) -> None:
    random, times = np.random.default_rng(3), [number * apart_s for number in range(60)]
    truths = [walkers(at_s) for at_s in times]
    looks = {at_s: noisy(true, random) for at_s, true in zip(times, truths, strict=True)}
    made = compare(looks, truths, SIZE, "person")
    assert made.claimed.precision > made.single.precision + 0.01
    assert made.claimed.f1 > made.single.f1 + gain
    assert made.known.false_negatives >= made.claimed.false_negatives


def test_a_larger_model_that_is_always_right_cannot_be_bettered() -> None:
    times = [number * 0.2 for number in range(20)]
    truths = [walkers(at_s) for at_s in times]
    looks = {
        at_s: Detections.of(true.xyxy, [0.9] * len(true.xyxy), true.label)
        for at_s, true in zip(times, truths, strict=True)
    }
    made = compare(looks, truths, SIZE, "person")
    assert made.single.f1 == made.known.f1 == made.claimed.f1 == 1.0
