"""The model files of the repository are what their manifest says, and they see."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest

from pipeline.detections import Detections
from pipeline.detectors.loading import load_detector
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.geometry import iou

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = [entry.name for entry in read_manifest(REPOSITORY / "models").entries]
FRAME = 300
PEOPLE = [
    [582, 160, 611, 235],
    [183, 159, 215, 233],
    [616, 161, 642, 231],
    [246, 160, 275, 223],
    [294, 160, 322, 234],
    [317, 209, 347, 296],
]
"""Boxes (xyxy) of people in frame 300 of plaza.mp4, as the float model saw them when it was released."""


@pytest.fixture(scope="module")
def frame() -> Any:
    capture = cv2.VideoCapture(str(REPOSITORY / "sample_videos/plaza.mp4"))
    for _ in range(FRAME):
        assert capture.grab()
    readable, image = capture.retrieve()
    capture.release()
    assert readable
    return image


def people(detections: Detections, least_score: float) -> Any:
    return detections.xyxy[(detections.label == "person") & (detections.score >= least_score)]


@pytest.mark.parametrize("name", NAMES)
def test_every_model_loads_at_its_usual_size_and_has_its_labels(name: str) -> None:
    entry = read_manifest().entry(name)
    detector = load_detector(name, input_size=entry.input.size_px, threads=1)
    assert detector.labels[0] == "person"
    assert len(detector.labels) == entry.output.classes
    assert detector.batch_size is None


@pytest.mark.parametrize("name", NAMES)
def test_every_model_file_says_nothing_about_the_machine_that_made_it(name: str) -> None:
    manifest = read_manifest()
    data = verified_path(manifest, manifest.entry(name)).read_bytes()
    assert b"/tmp" not in data
    assert b"/home" not in data
    onnx.checker.check_model(onnx.load_model_from_string(data))


def test_the_float_model_finds_the_people_of_a_known_frame(frame: Any) -> None:
    found = people(load_detector("nanodet-g", input_size=None, threads=1).detect([frame], 0.2)[0], 0.5)
    assert len(found) == len(PEOPLE)
    assert (iou(np.array(PEOPLE, np.float32), found).max(axis=1) > 0.9).all()


def test_the_8_bit_model_finds_most_of_them_at_a_quarter_of_the_pixels(frame: Any) -> None:
    found = people(load_detector("nanodet-g-int8", input_size=(192, 256), threads=1).detect([frame], 0.2)[0], 0.3)
    overlap = iou(np.array(PEOPLE, np.float32), found).max(axis=1)
    assert np.count_nonzero(overlap > 0.5) >= 0.7 * len(PEOPLE)


def test_a_batch_of_mosaics_gives_what_one_by_one_gives(frame: Any) -> None:
    detector = load_detector("nanodet-g", input_size=None, threads=1)
    mosaics = [np.ascontiguousarray(frame[y : y + 96, :576]) for y in (150, 200, 250)]
    for mosaic, found in zip(mosaics, detector.detect(mosaics, 0.3), strict=True):
        alone = detector.detect([mosaic], 0.3)[0]
        assert found.label.tolist() == alone.label.tolist()
        np.testing.assert_allclose(found.xyxy, alone.xyxy, atol=0.01)
        np.testing.assert_allclose(found.score, alone.score, atol=1e-4)
