from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.training import dataset
from foveate.training.dataset import Samples, class_weights, prepare, settled, showing, split_by_time
from foveate.training.targets import Answers
from tests.support.lessons import lesson, scene

NOTHING = np.empty((0, 4), np.float32)


def samples(*classes: list[int]) -> Samples:
    """Samples with objects of these classes."""
    known = [Answers(np.zeros((len(ids), 4), np.float32), np.array(ids, np.intp), NOTHING) for ids in classes]
    return Samples(np.zeros((len(classes), 16, 16, 3), np.uint8), tuple(known))


@given(st.integers(2, 200), st.randoms())
def test_the_newest_lessons_judge_whatever_order_they_come_in(count: int, random: object) -> None:
    given_order = [lesson(number) for number in range(count)]
    random.shuffle(given_order)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    learned, judged = split_by_time(given_order)
    assert max(each.taken_at for each in learned) < min(each.taken_at for each in judged)
    assert len(learned) + len(judged) == count
    assert timedelta(0) < judged[-1].taken_at - learned[0].taken_at


def test_pictures_and_boxes_come_to_the_input_size_alike() -> None:
    made = prepare([lesson(0, [(32, 24, 64, 48)], ignored=[(0, 0, 128, 96)])], ["person"], (192, 256))
    assert made.pictures.shape == (1, 192, 256, 3)
    assert made.answers[0].xyxy.tolist() == [[64, 48, 128, 96]]
    assert made.answers[0].ignored.tolist() == [[0, 0, 256, 192]]
    bright = np.argwhere((made.pictures[0, :, :, 0] > 150) & (made.pictures[0, :, :, 1] > 150))
    np.testing.assert_allclose(bright.min(axis=0), [48, 64], atol=1)


def test_objects_of_other_classes_are_left_out() -> None:
    made = prepare([lesson(0, [(32, 24, 64, 48)])], ["bicycle"], (96, 128))
    assert len(made.answers[0].xyxy) == 0
    assert made.counts(1).tolist() == [0]


def test_more_lessons_than_memory_holds_are_thinned_evenly(monkeypatch: object) -> None:
    monkeypatch.setattr(dataset, "MOST_PICTURE_BYTES", 5 * 96 * 128 * 3)  # type: ignore[attr-defined]  # pytest's
    made = prepare([lesson(number) for number in range(50)], ["person"], (96, 128))
    assert [int(picture[0, 0, 0]) for picture in made.pictures] == [0, 12, 24, 36, 49]


def test_a_rare_class_counts_more_and_is_shown_more() -> None:
    made = samples(*[[0, 0]] * 50, [1])
    assert class_weights(made.counts(2)).tolist() == [1, 4]
    shown = showing(made, 2)
    assert shown[-1] == 4 * shown[0]
    assert shown.sum() == pytest.approx(1)


def test_pictures_without_objects_are_at_most_half_of_what_is_shown() -> None:
    mostly_empty = showing(samples(*[[]] * 90, *[[0]] * 10), 1)
    assert mostly_empty[:90].sum() == 0.5
    assert showing(samples([], [], []), 1).tolist() == [1 / 3] * 3


def doubtful(times: int, known: int, count: int = 100) -> list[Answers]:
    """What is known of pictures: doubt at one place, jittering, in some of them, and an object there in others."""
    place = np.array([[40, 40, 60, 80]], np.float32)
    return [
        Answers(
            place if index >= count - known else NOTHING,
            np.zeros(int(index >= count - known), np.intp),
            place + np.float32(index % 3) if index < times else NOTHING,
        )
        for index in range(count)
    ]


@pytest.mark.parametrize(
    ("times", "known", "left"), [(100, 0, 0), (6, 0, 0), (4, 0, 4), (40, 39, 0), (40, 41, 40), (0, 0, 0)]
)
def test_doubt_that_comes_back_where_no_object_is_ever_known_is_settled_as_background(
    times: int, known: int, left: int
) -> None:
    assert sum(len(answers.ignored) for answers in settled(doubtful(times, known))) == left


def test_doubt_that_moves_stays_doubt() -> None:
    moving = [
        Answers(NOTHING, np.empty(0, np.intp), np.array([[30 * x, 0, 30 * x + 20, 40]], np.float32)) for x in range(50)
    ]
    assert sum(len(answers.ignored) for answers in settled(moving)) == 50
    assert settled([]) == ()


def test_lessons_of_a_scene_become_one_sample_each() -> None:
    lessons = scene(12)
    assert len(prepare(lessons, ["person"], (96, 128))) == 12
