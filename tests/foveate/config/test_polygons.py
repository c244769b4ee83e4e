"""Regions and masks as they are written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.region_of_interest import RegionError, bind
from foveate.config.polygons import MOST_POINTS, MOST_SIDE_PX, read_mask, read_roi
from pipeline.geometry import Size

NUMBERS = st.one_of(
    st.floats(-10, 2000, allow_nan=False), st.floats(), st.integers(-5, 70_000), st.text(max_size=4), st.none()
)
SHAPES = st.one_of(
    st.lists(NUMBERS, max_size=6), st.lists(st.lists(NUMBERS, max_size=3), max_size=6), st.text(max_size=5), st.none()
)


def test_a_box_becomes_its_four_corners() -> None:
    assert read_roi(["10", "20", "110", "220"]) == ((10, 20), (110, 20), (110, 220), (10, 220))


def test_points_are_kept_in_their_order() -> None:
    assert read_roi([["0", "0"], ["0.5", "1"], ["1", "0"]]) == ((0, 0), (0.5, 1), (1, 0))


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_an_empty_region_means_everywhere(nothing: object) -> None:
    assert read_roi(nothing) == ()


def test_an_empty_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 3 points"):
        read_mask([])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("everything", "at least 3 points"),
        ({"x": 1}, "at least 3 points"),
        (["1", "2", "3"], "at least 3 points"),
        ([["0", "0"], ["1", "1"]], "at least 3 points"),
        ([["0", "0"], ["1", "1"], ["2"]], "at least 3 points"),
        ([["0", "0"], ["1", "a"], ["2", "5"]], "at least 3 points"),
        (["0", "0", "100", ["5", "5"]], "at least 3 points"),
        (["-1", "0", "100", "100"], "negative"),
        ([["0", "0"], ["50", "-0.5"], ["50", "50"]], "negative"),
        (["0", "0", "nan", "100"], "finite"),
        (["0", "0", "inf", "100"], "finite"),
        (["100", "0", "20", "50"], "area is 0"),
        (["10", "10", "10", "50"], "area is 0"),
        (["0.5", "0.5", "0.2", "0.9"], "area is 0"),
        ([["0", "0"], ["10", "10"], ["20", "20"]], "area is 0"),
        ([["0", "0"], ["1", "1"], ["1", "0"], ["0", "1"]], "area is 0"),
        (["0.1", "0.1", "0.9", "1.1"], "less than 8 px"),
        (["100", "100", "107", "300"], "less than 8 px"),
        (["0", "0", str(MOST_SIDE_PX + 1), "10"], "at most"),
        ([[str(i), str(i * i % 97)] for i in range(MOST_POINTS + 1)], "at most"),
    ],
)
def test_what_no_frame_could_have_is_refused_with_the_reason(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_roi(value)


def test_a_small_mask_in_pixels_is_allowed() -> None:
    assert read_mask(["10", "10", "13", "12"])


@settings(deadline=None)
@given(SHAPES)
def test_whatever_is_written_is_refused_or_can_be_bound_to_frames(value: object) -> None:
    try:
        polygon = read_roi(value)
    except ValueError:
        return
    for size in (Size(640, 480), Size(64, 64)):
        try:
            region = bind(polygon, (), size)
        except RegionError:
            continue  # outside these frames
        assert region.window.width >= 8
        assert region.window.height >= 8
        assert region.window.x + region.window.width <= size.width
        assert region.window.y + region.window.height <= size.height


@settings(deadline=None)
@given(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0.1, 0.5), st.floats(0.1, 0.5))
def test_every_box_of_shares_fits_every_frame(x: float, y: float, width: float, height: float) -> None:
    region = bind(read_roi([x, y, x + width, y + height]), (), Size(640, 480))
    assert not region.warning
