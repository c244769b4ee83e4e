"""Boxes are drawn where they are, for any size of frame."""

import cv2
import numpy as np
import pytest

from edge_agent.board import Picture
from edge_agent.drawing import MOST_WIDTH_PX, annotated_jpeg
from pipeline.results import ResultDetection
from tests.support.records import result


def drawn(width: int, height: int, *found: ResultDetection) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    image = np.full((height, width, 3), 90, np.uint8)
    image.setflags(write=False)
    data = annotated_jpeg(Picture(image, result(0, detections=list(found))))
    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)


def test_a_frame_without_detections_stays_as_it_is() -> None:
    assert np.abs(drawn(320, 240).astype(int) - 90).max() <= 2


def test_a_box_is_drawn_where_it_is_in_the_colour_of_its_source() -> None:
    picture = drawn(320, 240, ResultDetection("person", 0.9, (100.0, 80.0, 200.0, 180.0), 7, "cloud"))
    changed = np.argwhere(np.abs(picture.astype(int) - 90).max(axis=2) > 40)
    (top, left), (bottom, right) = changed.min(axis=0).tolist(), changed.max(axis=0).tolist()
    assert left == pytest.approx(100, abs=3)
    assert right == pytest.approx(200, abs=3)
    assert bottom == pytest.approx(180, abs=3)
    assert top < 80
    blue, green, red = picture[130, 100].tolist()
    assert green > blue > red


@pytest.mark.parametrize(
    ("size", "expected"), [((1920, 1080), (960, 540)), ((320, 240), (320, 240)), ((1, 4000), (1, 4000))]
)
def test_a_wide_frame_is_shrunk_and_a_small_one_is_not(size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert drawn(*size).shape == (expected[1], expected[0], 3)
    assert expected[0] <= MOST_WIDTH_PX


@pytest.mark.parametrize("source", ["edge", "cloud", "track"])
@pytest.mark.parametrize("label", ["person", "日本語", "", "x" * 300])
def test_any_label_and_any_box_can_be_drawn(source: str, label: str) -> None:
    found = ResultDetection(label, 0.5, (-20.0, -10.0, 5000.0, 3.0), None, source)  # type: ignore[arg-type] # by name
    assert drawn(64, 48, found).shape == (48, 64, 3)
