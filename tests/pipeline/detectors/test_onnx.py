import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.execution import Execution
from pipeline.detectors.loading import load_detector
from pipeline.detectors.onnx import OnnxDetector
from pipeline.geometry import Size
from tests.support.onnx_models import SIDE, answer, brightness_detector, echo_detector, entry, fake_detector, save

ANSWER = answer([(9, 1, 0.75, (0.5, 0.5, 1, 1.5))])
"""Class 1 at [8, 8, 20, 24] of 64x64."""


def load(
    folder: Path,
    content: onnx.ModelProto,
    described: ModelEntry | None = None,
    size: tuple[int, int] | None = (SIDE, SIDE),
) -> OnnxDetector:
    save(folder, described or entry(), content)
    return load_detector("fake", input_size=size, threads=1, models_dir=folder)


def plain(blue: int, green: int, red: int, height: int = SIDE, width: int = SIDE) -> Any:
    return np.full((height, width, 3), (blue, green, red), np.uint8)


def spot(row: int, column: int, height: int = SIDE, width: int = SIDE) -> Any:
    """A black picture with one white 8x8 cell."""
    image = np.zeros((height, width, 3), np.uint8)
    image[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = 255
    return image


def assert_same(found: Detections, expected: Detections) -> None:
    assert found.label.tolist() == expected.label.tolist()
    np.testing.assert_allclose(found.xyxy, expected.xyxy, atol=1e-3)
    np.testing.assert_allclose(found.score, expected.score, atol=1e-4)


def test_the_known_object_is_found_in_the_pixels_of_any_picture(tmp_path: Path) -> None:
    detector: Detector = load(tmp_path, fake_detector(*ANSWER))
    small, wide = detector.detect([plain(1, 2, 3), plain(4, 5, 6, 120, 160)], 0.5)
    np.testing.assert_allclose(small.xyxy, [[8, 8, 20, 24]], atol=1e-3)
    np.testing.assert_allclose(wide.xyxy, [[20, 20, 50, 60]], atol=1e-2)
    assert (small.label.tolist(), small.score.tolist()) == (["class_1"], [0.75])
    assert detector.detect([plain(1, 2, 3)], 0.8)[0].label.tolist() == []
    assert detector.detect([], 0.5) == []


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("float16", "float16"), ("uint8", "float32")])
def test_inputs_and_outputs_of_other_types_give_what_float32_gives(tmp_path: Path, dtypes: tuple[str, str]) -> None:
    expected = load(tmp_path, fake_detector(*ANSWER)).detect([plain(1, 2, 3)], 0.5)[0]
    made = fake_detector(*ANSWER, dtype=dtypes[0], output_dtype=dtypes[1])
    found = load(tmp_path, made, entry(inputs={"dtype": dtypes[0]})).detect([plain(1, 2, 3)], 0.5)[0]
    np.testing.assert_allclose(found.xyxy, expected.xyxy, atol=0.05)
    np.testing.assert_allclose(found.score, expected.score, atol=0.01)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("colour", "red_class"), [("bgr", "class_2"), ("rgb", "class_0")])
def test_the_model_sees_the_declared_colours(tmp_path: Path, layout: str, colour: str, red_class: str) -> None:
    declared = entry(inputs={"layout": layout, "colour": colour, "scale": 1 / 255})
    detector = load(tmp_path, echo_detector(layout), declared)
    red, white = detector.detect([plain(0, 0, 255), plain(255, 255, 255)], 0.5)
    assert red.label.tolist() == [red_class]
    np.testing.assert_allclose(red.score, [1.0], atol=1e-3)
    assert sorted(white.label) == ["class_0", "class_1", "class_2"]


@pytest.mark.parametrize("shape", [["batch", 3, SIDE, SIDE], [1, 3, SIDE, SIDE], [4, 3, SIDE, SIDE]])
def test_every_batch_rule_gives_what_one_by_one_gives(tmp_path: Path, shape: list[Any]) -> None:
    made = fake_detector(*ANSWER, shape=shape)
    detector = load(tmp_path, made)
    assert detector.batch_size == (None if shape[0] == "batch" else shape[0])
    images = [plain(i, i, i, 64 + i, 80) for i in range(6)]
    for image, found in zip(images, detector.detect(images, 0.5), strict=True):
        assert_same(found, detector.detect([image], 0.5)[0])
        assert len(found) == 1


@pytest.mark.parametrize(
    ("batch", "only_one", "runs"),
    [(1, False, [1] * 6), (4, False, [4, 4]), ("batch", False, [6]), ("batch", True, [1] * 6)],
    ids=["fixed at 1", "fixed at 4", "free", "free in name alone"],
)
def test_whatever_batch_a_model_takes_each_picture_has_the_answer_that_it_has_alone(
    tmp_path: Path, batch: int | str, *, only_one: bool, runs: list[int]
) -> None:
    """Case C08: the last batch of a fixed one is padded, and what the model sees in the padding goes to nobody."""
    detector = load(tmp_path, brightness_detector(batch, only_one=only_one))
    images = [spot(i, 7 - i) for i in range(5)] + [plain(0, 0, 0)]
    alone = [detector.detect([image], 0.5)[0] for image in images]
    shapes = ran_shapes(detector)
    together = detector.detect(images, 0.5)
    assert [shape[0] for shape in shapes] == runs
    assert [len(found) for found in together] == [1] * 5 + [0]
    for found, expected in zip(together, alone, strict=True):
        assert found.label.tolist() == expected.label.tolist()
        np.testing.assert_allclose(found.xyxy, expected.xyxy, atol=1e-4)
        np.testing.assert_allclose(found.score, expected.score, atol=1e-4)


def test_a_model_that_merges_a_batch_into_one_answer_is_found_at_load_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Case C08: a Reshape to 1 need not fail at 2."""
    with caplog.at_level(logging.WARNING):
        detector = load(tmp_path, brightness_detector(only_one=True))
    assert "it runs one picture at a time" in caplog.text
    assert detector.batch_size == 1


def test_a_batch_that_is_free_in_name_alone_is_found_at_load_and_run_one_by_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Case C08."""
    with caplog.at_level(logging.WARNING):
        detector = load(tmp_path, fake_detector(*ANSWER, only_one=True))
    assert "fails at 2" in caplog.text
    assert detector.batch_size == 1
    assert [len(found) for found in detector.detect([plain(0, 0, 0)] * 3, 0.5)] == [1, 1, 1]


def test_pictures_of_mixed_sizes_keep_their_own_answers_in_native_mode(tmp_path: Path) -> None:
    declared = entry(inputs={"scale": 1.0, "largest_px": (96, 128)})
    detector = load(tmp_path, brightness_detector(), declared, None)
    images = [spot(0, 0), spot(3, 5, 80, 128), spot(7, 7), spot(1, 2, 40, 30), spot(2, 0, 80, 128)]
    for image, found in zip(images, detector.detect(images, 0.5), strict=True):
        rows, columns = np.nonzero(image[..., 0])
        expected = [[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]]
        np.testing.assert_allclose(found.xyxy, expected, atol=0.1)
        assert_same(found, detector.detect([image], 0.5)[0])


def test_rows_that_are_no_numbers_or_no_probabilities_are_dropped_and_mark_the_model_suspect(tmp_path: Path) -> None:
    scores, distances = answer([(0, 0, 0.9, (0.5, 0.5, 1, 1)), (9, 1, 0.8, (0.5, 0.5, 1, 1)), (30, 2, 658.0, (1,) * 4)])
    scores[9, 0] = np.nan
    detector = load(tmp_path, fake_detector(scores, distances))
    assert detector.suspect_rows == 0
    assert detector.detect([plain(0, 0, 0)], 0.5)[0].label.tolist() == ["class_0"]
    assert detector.suspect_rows == 2


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    detector = load(tmp_path, fake_detector(*ANSWER))
    with pytest.raises(ValueError, match="uint8 BGR"):
        detector.detect([np.zeros((4, 4), np.uint8)], 0.5)


def test_pictures_that_share_a_bucket_run_together_and_keep_their_own_answers(tmp_path: Path) -> None:
    declared = entry(inputs={"scale": 1.0, "largest_px": (128, 128)})
    save(tmp_path, declared, brightness_detector())
    apart = load_detector("fake", input_size=None, threads=1, models_dir=tmp_path)
    together = load_detector("fake", input_size=None, threads=1, models_dir=tmp_path, on=Execution(most_padding=0.5))
    pictures = [spot(1, 2, 72, 88), spot(3, 0, 80, 80), spot(0, 8, 66, 74)]
    sizes = [Size(picture.shape[1], picture.shape[0]) for picture in pictures]
    assert len({apart.input_of(size) for size in sizes}) == 3
    assert len({together.input_of(size) for size in sizes}) == 1
    shapes = ran_shapes(together)
    for alone, shared in zip(apart.detect(pictures, 0.5), together.detect(pictures, 0.5), strict=True):
        assert len(alone) == 1
        assert_same(shared, alone)
    assert shapes == [(3, 3, together.input_of(sizes[0]).height, together.input_of(sizes[0]).width)]


def test_a_bucket_is_never_larger_than_the_largest_input(tmp_path: Path) -> None:
    save(tmp_path, entry(inputs={"scale": 1.0, "largest_px": (104, 120)}), brightness_detector())
    detector = load_detector("fake", input_size=None, threads=1, models_dir=tmp_path, on=Execution(most_padding=1.0))
    assert detector.input_of(Size(113, 97)) == Size(120, 104)
    assert len(detector.detect([spot(12, 14, 104, 120)], 0.5)[0]) == 1


def test_regions_of_any_size_are_one_shape_to_a_model_of_a_fixed_size(tmp_path: Path) -> None:
    """Case C13: what an agent's small model is given, however often its region of interest changes."""
    detector, chance = load(tmp_path, brightness_detector()), np.random.default_rng(3)
    shapes = ran_shapes(detector)
    for height, width in chance.integers(16, 400, (500, 2)).tolist():
        detector.detect([plain(0, 0, 0, height, width)], 0.5)
    assert set(shapes) == {(1, 3, SIDE, SIDE)}


def ran_shapes(detector: OnnxDetector) -> list[tuple[int, ...]]:
    """The input shapes of the runs from now on."""
    shapes: list[tuple[int, ...]] = []
    session = detector._session

    class Watched:
        def run(self, names: list[str], feeds: dict[str, Any]) -> Any:
            shapes.append(feeds["image"].shape)
            return session.run(names, feeds)

    detector._session = Watched()  # type: ignore[assignment]  # no more of a session is used once it is proven
    return shapes
