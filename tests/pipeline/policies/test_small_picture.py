"""The small grey picture and what is computed on it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.geometry import Size
from pipeline.policies.small_picture import Field, Grey, boxes_of, difference, median, parts, shrink

SHAPE = (60, 80)


def textured(seed: int = 1) -> Grey:
    return np.random.default_rng(seed).integers(40, 200, SHAPE, dtype=np.uint8)


@pytest.mark.parametrize(
    ("size", "small"),
    [((576, 768), (144, 192)), ((1080, 1920), (144, 256)), ((100, 50), (100, 50)), ((1, 1), (1, 1))],
)
def test_a_frame_shrinks_to_the_height_and_keeps_its_shape(size: tuple[int, int], small: tuple[int, int]) -> None:
    assert shrink(np.zeros((*size, 3), np.uint8), 144).shape == small


@given(st.floats(0.6, 1.2))
def test_one_gain_for_all_leaves_nothing_that_differs(gain: float) -> None:
    then = textured()
    now = np.clip(then * gain, 0, 255).astype(np.uint8)
    where = Field.of(SHAPE, None)
    assert difference(now, where.under_light_of(now, then)).max() <= 2


def test_in_the_dark_no_gain_is_guessed() -> None:
    then = np.full(SHAPE, 3, np.uint8)
    now = np.full(SHAPE, 9, np.uint8)
    assert (Field.of(SHAPE, None).under_light_of(now, then) == 3).all()


@pytest.mark.parametrize("shift", [(0, 1), (1, 0), (0, -1), (-1, 0)])
def test_a_shift_by_one_pixel_is_no_difference_and_one_by_three_is(shift: tuple[int, int]) -> None:
    then = textured()
    once, thrice = (np.roll(then, (n * shift[0], n * shift[1]), (0, 1)) for n in (1, 3))
    assert difference(once, then)[5:-5, 5:-5].max() == 0
    assert np.mean(difference(thrice, then)) > 5


def test_the_noise_is_that_of_the_still_part() -> None:
    rng = np.random.default_rng(2)
    then = np.full(SHAPE, 100, np.uint8)
    now = np.clip(then + rng.normal(0, 4, SHAPE), 0, 255).round().astype(np.uint8)
    now[:6] = 255
    assert Field.of(SHAPE, None).noise_levels(now, then) == pytest.approx(4, rel=0.4)


def test_what_is_masked_neither_differs_nor_counts() -> None:
    mask = np.zeros((120, 160), np.uint8)
    mask[:, :80] = 255
    where = Field.of(SHAPE, mask)
    everything = np.full(SHAPE, 200, np.uint8)
    assert where.pixels == 60 * 40
    assert np.count_nonzero(where.beyond(everything, 10.0)) == 60 * 40
    assert where.spread(where.beyond(everything, 10.0)) == 1.0


def test_how_far_a_difference_has_spread_does_not_depend_on_its_area() -> None:
    where, everywhere, corner = Field.of(SHAPE, None), np.zeros(SHAPE, np.uint8), np.zeros(SHAPE, np.uint8)
    everywhere[::8, ::8] = 255
    corner[:20, :20] = 255
    assert np.count_nonzero(everywhere) < np.count_nonzero(corner)
    assert where.spread(everywhere) == 1.0
    assert where.spread(corner) < 0.15


def test_parts_are_told_apart_and_boxed_in_frame_pixels() -> None:
    mask = np.zeros(SHAPE, np.uint8)
    mask[10:20, 30:50] = mask[40:44, 5:10] = 255
    rows = parts(mask)
    assert sorted(rows[:, 4].tolist()) == [20, 200]
    assert sorted(boxes_of(rows, SHAPE, Size(160, 120)).tolist()) == [[10, 80, 20, 88], [60, 20, 100, 40]]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_the_median_lies_in_the_middle(values: list[float]) -> None:
    assert median(np.array(values)) == sorted(values)[len(values) // 2]


def test_the_median_of_nothing_is_zero() -> None:
    assert median(np.empty(0)) == 0.0
