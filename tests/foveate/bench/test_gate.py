"""The benchmark of the gate counts what the product's gate does, and scores what the product would answer."""

from pathlib import Path

import numpy as np
import pytest

from edge_agent.capture.settings import CaptureSettings
from edge_agent.settings import CameraSettings
from foveate.bench.gate import Chain, camera, idle, uniform
from foveate.bench.playlist import Clip
from foveate.models.scoring import Truth, as_truth
from pipeline.detections import Detections
from pipeline.errors import SourceError

HALL = CameraSettings("hall", CaptureSettings(""))
BOX = (10.0, 10.0, 30.0, 50.0)


def person(score: float = 0.9, label: str = "person") -> Detections:
    return Detections.of([BOX], [score], [label])


def shown(chain: Chain, found: Detections, truth: Truth, frames: int = 50) -> Chain:
    """A still picture, ten frames a second."""
    image = np.full((96, 128, 3), 90, np.uint8)
    for seq in range(frames):
        chain.take(seq, seq / 10, image, found, truth)
    return chain


def test_on_a_still_scene_the_gate_keeps_the_heartbeat_and_loses_nothing() -> None:
    chain = shown(Chain(HALL, "person"), person(), as_truth(person(), 0.5))
    assert (chain.sampled, chain.kept) == (25, 5)
    assert chain.dropped == 0.8
    assert chain.score.f1 == 1.0


def test_uniform_analysis_keeps_every_sampled_frame_at_a_share_of_the_rate() -> None:
    truth = as_truth(person(), 0.5)
    assert shown(Chain(uniform(HALL), "person"), person(), truth).kept == 25
    assert shown(Chain(uniform(HALL, 0.5), "person"), person(), truth).kept in {12, 13}
    assert uniform(HALL, 1.5).sample_fps == HALL.sample_fps


def test_what_the_small_model_sees_wrongly_is_scored_as_wrong() -> None:
    chain = shown(Chain(HALL, "person"), person(), as_truth(Detections.none(), 0.5))
    assert chain.score.true_positives == 0
    assert chain.score.false_positives == 50


def test_other_labels_and_unsure_boxes_do_not_count() -> None:
    truth = as_truth(person(label="dog"), 0.5)
    assert shown(Chain(HALL, "person"), person(0.1), truth).score.f1 == 1.0


def test_a_phase_begins_so_many_frames_late() -> None:
    chain = shown(Chain(HALL, "person", phase=3), person(), as_truth(person(), 0.5))
    assert len(chain.scores) == 47


def test_the_camera_is_that_of_a_run_of_the_clip(plaza: Path) -> None:
    settings = camera(Clip("plaza", plaza, "person", 10.0))
    assert (settings.sample_fps, settings.sampling, settings.change_detection) == (5.0, "adaptive", "adaptive")


def test_a_clip_that_is_absent_is_named() -> None:
    with pytest.raises(SourceError, match=r"nowhere\.mp4"):
        idle(Clip("nowhere", Path("nowhere.mp4"), "person", 10.0), [0], lambda _: None)
