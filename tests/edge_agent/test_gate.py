"""The gate binds its parts to the size of the frames."""

import cv2
import numpy as np
import pytest

from edge_agent.capture.settings import CaptureSettings
from edge_agent.gate import Gate, baseline_bytes, jpeg
from edge_agent.region_of_interest import RegionError
from edge_agent.settings import CameraSettings
from pipeline.frames import Frame, FrameKey
from pipeline.geometry import Size

CAMERA = CameraSettings("hall", CaptureSettings("synthetic:"), sample_fps=5.0)
LEFT_HALF = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))


def grey(width: int, height: int, level: int = 90) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full((height, width, 3), level, np.uint8)


def test_frames_are_due_at_the_sampling_rate() -> None:
    gate = Gate(CAMERA)
    assert [n for n in range(20) if gate.due(n / 10)] == list(range(0, 20, 2))


def test_a_still_scene_is_kept_first_and_then_not() -> None:
    gate = Gate(CAMERA)
    gate.fit(Size(64, 48))
    assert [gate.look(grey(64, 48), at_s).keep for at_s in (0.0, 0.2, 0.4)] == [True, False, False]


def test_uniform_keeps_every_frame() -> None:
    gate = Gate(CameraSettings("hall", CaptureSettings("synthetic:"), change_detection="uniform"))
    gate.fit(Size(64, 48))
    assert all(gate.look(grey(64, 48), at_s).keep for at_s in (0.0, 0.2, 0.4))


def test_the_region_is_bound_once_per_size_and_anew_when_the_size_changes() -> None:
    gate = Gate(CameraSettings("hall", CaptureSettings("synthetic:"), roi=LEFT_HALF))
    first = gate.fit(Size(200, 100))
    assert gate.fit(Size(200, 100)) is first
    turned = gate.fit(Size(100, 200))
    assert (turned.window.width, turned.window.height) == (50, 200)
    assert gate.look(grey(100, 200), 0.0).reason == "first"


def test_motion_outside_the_region_is_not_noticed() -> None:
    gate = Gate(CameraSettings("hall", CaptureSettings("synthetic:"), roi=LEFT_HALF))
    gate.fit(Size(200, 100))
    gate.look(grey(200, 100), 0.0)
    moved = grey(200, 100)
    moved[20:60, 140:180] = 200
    assert len(gate.look(moved, 0.2).motion) == 0
    moved[20:60, 20:60] = 200
    assert len(gate.look(moved, 0.4).motion) == 1


def test_a_region_that_does_not_fit_is_told_and_one_that_does_is_taken_later() -> None:
    gate = Gate(CameraSettings("hall", CaptureSettings("synthetic:"), roi=((300, 10), (400, 10), (400, 90))))
    with pytest.raises(RegionError):
        gate.fit(Size(200, 100))
    assert gate.fit(Size(640, 480)).window.x == 300


def test_looking_before_the_size_is_known_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="fit"):
        Gate(CAMERA).look(grey(64, 48), 0.0)


def test_a_picture_becomes_a_jpeg_of_its_size_and_better_quality_costs_more() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    small, large = jpeg(noise, 30), jpeg(noise, 90)
    decoded = cv2.imdecode(np.frombuffer(small, np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    assert decoded.shape == (48, 64, 3)
    assert len(small) < len(large)
    assert baseline_bytes(Frame(FrameKey("c", 1, 0), noise, 0.0, None)) == len(jpeg(noise, 80))
