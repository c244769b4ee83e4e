import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.training.input_size import AS_GOOD, LEAST_SHARE, choose, sizes
from pipeline.geometry import Size

USUAL = (192, 256)


def test_a_wide_camera_is_offered_wide_inputs_of_no_more_pixels() -> None:
    assert sizes(Size(320, 180), USUAL, 32) == [(192, 256), (160, 288), (128, 224), (96, 160)]


@given(width=st.integers(16, 2000), height=st.integers(16, 2000))
def test_every_input_suits_the_stride_and_costs_no_more_than_the_usual_one(width: int, height: int) -> None:
    found = sizes(Size(width, height), USUAL, 32)
    assert USUAL in found
    for size in found:
        assert all(side % 32 == 0 for side in size)
        assert LEAST_SHARE * USUAL[0] * USUAL[1] <= size[0] * size[1] <= USUAL[0] * USUAL[1]
    assert len(found) == len(set(found))


@given(stands=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_the_chosen_input_is_as_good_as_the_best_and_none_as_good_is_cheaper(stands: list[float]) -> None:
    given_sizes = [(32 * (index + 1), 64) for index in range(len(stands))]
    known = dict(zip(given_sizes, stands, strict=True))
    chosen = choose(given_sizes, known.__getitem__, lambda: True)[0]
    good = [size for size, stood in known.items() if stood >= max(stands) - AS_GOOD]
    assert chosen.input_px == min(good)
    assert chosen.stands == known[chosen.input_px]


def test_the_usual_input_is_tried_first_and_no_other_where_time_is_up() -> None:
    found = sizes(Size(320, 100), USUAL, 32)
    assert found[0] == USUAL
    assert len(found) > 1
    assert [one.input_px for one in choose(found, lambda _: 0.5, lambda: False)] == [USUAL]


def test_inputs_are_tried_once_each() -> None:
    asked: list[tuple[int, int]] = []

    def stands(size: tuple[int, int]) -> float:
        asked.append(size)
        return 0.5

    assert choose([(64, 64), (32, 32)], stands, lambda: True)[0].input_px == (32, 32)
    assert asked == [(64, 64), (32, 32)]
    with pytest.raises(ValueError, match="empty"):
        choose([], stands, lambda: True)
