import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foveate.training.network import STRIDE_PX
from foveate.training.targets import Answers, targets

INPUT_PX = (64, 96)
NOTHING = np.empty((0, 4), np.float32)
boxes = st.builds(
    lambda x, y, width, height: (x, y, x + width, y + height),
    st.floats(-20, 100, width=32),
    st.floats(-20, 70, width=32),
    st.floats(2, 60, width=32),
    st.floats(2, 60, width=32),
)


def answers(known: list[tuple[float, ...]], classes: list[int], ignored: list[tuple[float, ...]]) -> Answers:
    return Answers(
        np.array(known, np.float32).reshape(-1, 4),
        np.array(classes, np.intp),
        np.array(ignored, np.float32).reshape(-1, 4),
    )


@given(st.lists(boxes, max_size=5))
def test_every_object_in_the_picture_has_a_centre_of_its_own_cell_and_class(known: list[tuple[float, ...]]) -> None:
    made = targets(answers(known, [index % 2 for index in range(len(known))], []), 2, INPUT_PX)
    for index, (x1, y1, x2, y2) in enumerate(known):
        x, y = np.float32((np.float32(x1) + np.float32(x2)) / 2), np.float32((np.float32(y1) + np.float32(y2)) / 2)
        if 0 <= x < INPUT_PX[1] and 0 <= y < INPUT_PX[0]:
            assert made.heat[index % 2, int(y // STRIDE_PX), int(x // STRIDE_PX)] == 1
            assert made.counted[index % 2, int(y // STRIDE_PX), int(x // STRIDE_PX)] == 1
    assert made.heat.min() >= 0
    assert made.heat.max(initial=0) <= 1
    assert ((made.weight > 0) == (made.heat.max(axis=0) > 0)).all()


@given(boxes)
def test_distances_around_a_centre_lead_to_the_sides_of_its_box(box: tuple[float, ...]) -> None:
    made = targets(answers([box], [0], []), 1, INPUT_PX)
    for row, column in np.argwhere(made.weight > 0):
        x, y = (column + 0.5) * STRIDE_PX, (row + 0.5) * STRIDE_PX
        left, top, right, bottom = made.reach[:, row, column]
        np.testing.assert_allclose([x - left, y - top, x + right, y + bottom], box, atol=1e-3)


def test_of_two_that_overlap_the_smaller_has_the_distances() -> None:
    large, small = (0, 0, 64, 64), (24, 24, 40, 40)
    made = targets(answers([small, large], [0, 0], []), 1, INPUT_PX)
    assert made.reach[:, 8, 8].tolist() == [10, 10, 6, 6]


def test_nothing_is_counted_in_an_ignored_region_but_where_an_object_is_known() -> None:
    made = targets(answers([(0, 0, 16, 16)], [0], [(8, 8, 40, 40)]), 1, INPUT_PX)
    assert made.counted[0, 8, 8] == 0
    assert made.counted[0, 2, 2] == 1
    assert made.counted[0, 12, 20] == 1
    assert made.counted.sum() == made.counted.size - (8 * 8 - 2 * 2)


def test_what_shows_of_an_object_whose_centre_is_outside_is_ignored() -> None:
    made = targets(answers([(-30, 0, 10, 20)], [0], []), 1, INPUT_PX)
    assert made.heat.max() == 0
    assert made.counted[0, 0, 0] == 0
    assert made.counted[0, 0, 4] == 1


def test_an_empty_picture_is_all_background() -> None:
    made = targets(Answers(NOTHING, np.empty(0, np.intp), NOTHING), 3, INPUT_PX)
    assert made.heat.shape == (3, 16, 24)
    assert made.heat.max() == made.weight.max() == 0
    assert made.counted.min() == 1
