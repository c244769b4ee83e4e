"""What a camera's own model is worth on frames that nothing has seen."""

import math

import numpy as np
import pytest

from foveate.bench.learn import _figures
from foveate.bench.learned import Looked, f1_at, night
from foveate.bench.learned_uplink import unseen_bytes
from foveate.bench.virtual import VirtualRun
from foveate.models.scoring import Truth
from pipeline.detections import Detections


def truth(*boxes: tuple[float, float, float, float]) -> Truth:
    xyxy = np.array(boxes, np.float32).reshape(-1, 4)
    return Truth(xyxy, np.array(["person"] * len(xyxy), np.str_), np.zeros(len(xyxy), bool))


def test_f1_counts_what_reaches_the_threshold_over_all_frames_together() -> None:
    box, other = (10.0, 10.0, 30.0, 60.0), (100.0, 10.0, 130.0, 60.0)
    found = {1: Detections.of([box, other], [0.9, 0.3], ["person", "person"]), 2: Detections.none()}
    true = {1: truth(box), 2: truth(box)}
    assert f1_at(found, true, 0.5) == pytest.approx(2 / 3)  # one right, one missed
    assert f1_at(found, true, 0.2) == pytest.approx(0.5)  # and one wrong
    assert f1_at(found, true, 0.95) == 0.0


def test_a_gap_is_closed_by_what_the_own_model_has_over_the_general_one() -> None:
    looked = {"general": Looked(0.80, 0.7, 6.0), "learned": Looked(0.89, 0.8, 1.5)}
    figures = _figures(looked, teacher=0.92)
    assert figures == pytest.approx({"gain": 0.09, "time_ratio": 0.25, "gap_closed": 0.75})
    assert math.isnan(_figures(looked, teacher=0.80)["gap_closed"])


def test_by_night_a_frame_is_dark_and_grey() -> None:
    image = np.full((40, 60, 3), (200, 60, 120), np.uint8)
    dark = night()(image)
    assert dark.shape == image.shape
    assert dark.dtype == np.uint8
    assert dark.mean() < 40
    assert np.ptp(dark.astype(int), axis=2).max() == 0
    assert (night()(image) == dark).all()


def test_only_what_is_sent_from_the_first_unseen_frame_on_is_counted() -> None:
    captured_s = {seq: 50.0 + seq for seq in range(10)}
    sent = ((50.0, 1000), (55.9, 500), (56.0, 70), (58.0, 7))
    run = VirtualRun((), captured_s, 1577, {}, None, 10.0, sent)  # type: ignore[arg-type] # not looked at
    assert unseen_bytes(run, frames=10) == 77
