from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.training.augment import AugmentSettings
from foveate.training.nanodet_samples import into_input, prepare, tensor, thinned, view
from pipeline.detections import Detections
from pipeline.detectors.onnx import tensor_shape
from pipeline.detectors.preprocess import fill, place
from pipeline.geometry import Size
from tests.support.lessons import lesson
from tests.support.onnx_models import entry
from tests.support.small_nanodet import small_base

STILL = AugmentSettings(1.0, 1.0, shift=0.0, contrast=0.0, brightness=0.0)


def test_a_prepared_lesson_is_what_the_detector_would_feed_its_network(tmp_path: Path) -> None:
    contract = small_base(tmp_path).entry.input
    taught = lesson(7, [(16, 16, 32, 48)])
    prepared = prepare([taught], ("person",), contract, (64, 96))
    expected = np.empty(tensor_shape(contract, 1, (64, 96)), np.float32)
    fill(taught.picture, place(Size(128, 96), contract, (64, 96)), contract, expected[0])
    np.testing.assert_allclose(tensor(prepared.samples.pictures, contract).numpy(), expected, atol=1e-4)


@given(
    boxes=st.lists(st.tuples(*[st.floats(0, 60)] * 2, *[st.floats(61, 120)] * 2), max_size=4),
    size=st.sampled_from([(64, 96), (96, 64), (96, 128)]),
)
def test_boxes_go_into_the_input_by_the_way_that_detections_come_out(
    boxes: list[tuple[float, float, float, float]], size: tuple[int, int]
) -> None:
    placement = place(Size(128, 128), entry().input, size)
    given_boxes = np.array(boxes, np.float32).reshape(-1, 4)
    np.testing.assert_allclose(placement.to_picture(into_input(given_boxes, placement)), given_boxes, atol=1e-3)


def test_other_classes_are_left_out_and_scores_stay_with_their_boxes(tmp_path: Path) -> None:
    contract = small_base(tmp_path).entry.input
    both = Detections.of([(0, 0, 9, 9), (20, 20, 40, 40)], [0.9, 0.47], ["dog", "person"])
    prepared = prepare([replace(lesson(0), known=both)], ("person", "kite"), contract, (96, 128))
    assert prepared.samples.answers[0].class_id.tolist() == [0]
    np.testing.assert_allclose(prepared.samples.answers[0].xyxy, [[20, 20, 40, 40]])
    np.testing.assert_allclose(prepared.scores[0], [0.47])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_view_shows_its_boxes_where_the_objects_are(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    contract = small_base(tmp_path_factory.mktemp("base")).entry.input
    prepared = prepare([lesson(0, [(60, 40, 84, 72)])], ("person",), contract, (96, 128))
    seen, targets = view(prepared, 0, AugmentSettings(contrast=0.0, brightness=0.0), np.random.default_rng(seed))
    bright = seen.mean(axis=2) > 170
    if len(targets.xyxy) == 0:
        return
    x1, y1, x2, y2 = targets.xyxy[0].round().int().tolist()
    inside = bright[y1:y2, x1:x2]
    assert inside.mean() > 0.8
    assert bright.sum() - inside.sum() < 0.3 * inside.size
    assert torch.equal(targets.score, torch.tensor([0.9]))


def test_an_object_that_a_view_cuts_off_is_ignored(tmp_path: Path) -> None:
    contract = small_base(tmp_path).entry.input
    prepared = prepare([lesson(0, [(0, 0, 8, 8), (60, 40, 84, 72)])], ("person",), contract, (96, 128))
    closer = replace(STILL, least_scale=1.1, most_scale=1.1)
    _, targets = view(prepared, 0, closer, np.random.default_rng(0))
    assert len(targets.xyxy) == 1
    assert len(targets.ignored) == 1


def test_more_lessons_than_are_wanted_are_thinned_evenly_from_the_first_to_the_last() -> None:
    lessons = [lesson(number) for number in range(9)]
    assert [each.taken_at for each in thinned(lessons, 3)] == [lessons[i].taken_at for i in (0, 4, 8)]
    assert thinned(lessons, 20) == lessons
