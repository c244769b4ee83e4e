from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foveate.training.paste import PasteSettings, paste
from foveate.training.targets import Answers
from pipeline.geometry import coverage

GREY = np.full((96, 128, 3), 90, np.uint8)
NOTHING = np.empty((0, 4), np.float32)
HERE, ELSEWHERE = PasteSettings(most=9, elsewhere=0.0), PasteSettings(most=9, elsewhere=1.0)


def scene(*boxes: tuple[int, int, int, int], level: int = 90) -> tuple[NDArray[np.uint8], Answers]:
    """A picture with a bright object in each box, and what is known of it."""
    picture = np.full_like(GREY, level)
    for x1, y1, x2, y2 in boxes:
        picture[y1:y2, x1:x2] = 230
    return picture, Answers(np.array(boxes, np.float32).reshape(-1, 4), np.ones(len(boxes), np.intp), NOTHING)


def pasted(
    onto: tuple[NDArray[np.uint8], Answers], other: tuple[NDArray[np.uint8], Answers], how: PasteSettings, seed: int
) -> tuple[NDArray[np.uint8], Answers]:
    return paste(*onto, other, how, np.random.default_rng(seed))


@settings(deadline=None)
@given(st.integers(0, 1000), st.sampled_from([HERE, ELSEWHERE, PasteSettings()]))
def test_whatever_is_pasted_is_known_and_is_to_be_seen(seed: int, how: PasteSettings) -> None:
    onto, other = scene((10, 10, 30, 40)), scene((60, 20, 80, 60), (100, 50, 120, 90))
    made, answers = pasted(onto, other, how, seed)
    assert len(answers.class_id) == len(answers.xyxy) <= 3
    np.testing.assert_array_equal(answers.xyxy[0], onto[1].xyxy[0])
    for box in answers.xyxy[1:]:
        x, y = ((box[:2] + box[2:]) / 2).astype(int)
        assert made[y, x].min() > 200
    assert onto[0].max(initial=0) == 230
    assert (onto[0][:, 50:] == 90).all()  # what was there is left as it was


def test_an_object_comes_to_its_own_place_as_it_was() -> None:
    other = scene((60, 20, 80, 60))
    made, answers = next(found for seed in range(50) if len((found := pasted(scene(), other, HERE, seed))[1].xyxy))
    assert answers.xyxy.tolist() == [[60, 20, 80, 60]]
    np.testing.assert_array_equal(made, other[0])


@given(st.integers(0, 200))
def test_nothing_comes_to_a_place_in_other_light_or_with_something_there(seed: int) -> None:
    other = scene((60, 20, 80, 60))
    assert len(pasted(scene(level=150), other, HERE, seed)[1].xyxy) == 0
    assert len(pasted(scene((70, 30, 90, 70)), other, HERE, seed)[1].xyxy) == 1
    doubtful = replace(scene()[1], ignored=np.array([[0, 0, 128, 96]], np.float32))
    assert len(pasted((GREY, doubtful), other, PasteSettings(most=9), seed)[1].xyxy) == 0


@settings(deadline=None)
@given(st.integers(0, 300))
def test_of_what_is_known_never_much_is_hidden(seed: int) -> None:
    onto = scene((20, 20, 50, 80), (80, 20, 110, 80))
    _, answers = pasted(onto, scene((60, 20, 75, 60), (5, 5, 15, 30)), ELSEWHERE, seed)
    if len(answers.xyxy) > 2:
        assert coverage(onto[1].xyxy, answers.xyxy[2:]).max() <= ELSEWHERE.most_hidden


@given(st.integers(0, 200))
def test_objects_that_overlap_are_not_cut_apart(seed: int) -> None:
    together = scene((60, 20, 80, 60), (70, 30, 90, 70))
    assert len(pasted(scene(), together, PasteSettings(most=9), seed)[1].xyxy) == 0
