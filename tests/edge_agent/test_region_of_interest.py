"""Regions and masks are bound to the true size of the frames."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.region_of_interest import RegionError, bind, paint_over
from pipeline.detections import Detections
from pipeline.geometry import Rect, Size
from pipeline.mosaic import GREY

SIZE = Size(200, 100)
LEFT_HALF = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))


def at(*centres: tuple[float, float]) -> Detections:
    """Boxes of 10 x 10 pixels around points."""
    return Detections.of([(x - 5, y - 5, x + 5, y + 5) for x, y in centres], [0.9] * len(centres), ["x"] * len(centres))


def kept(found: Detections) -> list[tuple[float, float]]:
    return [((a + c) / 2, (b + d) / 2) for a, b, c, d in found.xyxy.tolist()]


def test_without_region_and_masks_everything_counts() -> None:
    region = bind((), (), SIZE)
    assert (region.window, region.mask, region.warning) == (Rect(0, 0, 200, 100), None, "")
    assert len(region.keep(at((5, 5), (500, 500)))) == 2


def test_shares_and_pixels_name_the_same_region() -> None:
    shares = bind(LEFT_HALF, (), SIZE)
    pixels = bind(((0, 0), (100, 0), (100, 100), (0, 100)), (), SIZE)
    assert shares.window == pixels.window == Rect(0, 0, 100, 100)
    assert shares.mask is not None
    assert pixels.mask is not None
    assert np.array_equal(shares.mask, pixels.mask)


def test_the_centre_decides() -> None:
    region = bind(LEFT_HALF, (), SIZE)
    assert kept(region.keep(at((50, 50), (99, 50), (106, 50), (150, 50)))) == [(50, 50), (99, 50)]


def test_a_mask_takes_out_of_the_whole_or_of_the_region() -> None:
    mask = ((0.0, 0.0), (0.25, 0.0), (0.25, 1.0), (0.0, 1.0))
    assert kept(bind((), (mask,), SIZE).keep(at((20, 50), (70, 50), (150, 50)))) == [(70, 50), (150, 50)]
    assert kept(bind(LEFT_HALF, (mask,), SIZE).keep(at((20, 50), (70, 50), (150, 50)))) == [(70, 50)]


def test_a_polygon_counts_by_its_shape_and_its_window_is_the_box_around_it() -> None:
    region = bind(((0, 0), (200, 0), (0, 100)), (), SIZE)
    assert region.window == Rect(0, 0, 200, 100)
    assert kept(region.keep(at((20, 20), (190, 90)))) == [(20, 20)]


def test_a_region_that_reaches_out_is_cut_with_a_warning() -> None:
    region = bind(((100, 50), (300, 50), (300, 150), (100, 150)), (), SIZE)
    assert region.window == Rect(100, 50, 100, 50)
    assert "beyond the frame of 200x100" in region.warning
    assert bind(LEFT_HALF, (), SIZE).warning == ""


@pytest.mark.parametrize(
    "roi",
    [
        ((300, 10), (400, 10), (400, 90)),
        ((10, 10), (10, 10), (10, 10)),
        ((10, 10), (13, 10), (13, 90), (10, 90)),
        ((0.999, 0.0), (1.0, 0.0), (1.0, 1.0)),
    ],
    ids=["outside", "without area", "too narrow", "a sliver"],
)
def test_a_region_that_leaves_nothing_is_refused_with_its_figures(roi: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(RegionError, match="less than 8 pixels of the frame of 200x100"):
        bind(roi, (), SIZE)


def test_masks_that_cover_the_region_are_refused() -> None:
    with pytest.raises(RegionError, match="nothing is left"):
        bind(LEFT_HALF, (LEFT_HALF,), SIZE)


def test_boxes_beyond_the_frame_are_judged_at_its_border() -> None:
    region = bind(LEFT_HALF, (), SIZE)
    assert len(region.keep(at((-50, -50)))) == 1
    assert len(region.keep(at((900, 50)))) == 0


coordinate = st.floats(-50, 250)


@given(st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=8))
def test_any_region_is_bound_within_the_frame_or_refused(roi: list[tuple[float, float]]) -> None:
    try:
        region = bind(tuple(roi), (), SIZE)
    except RegionError:
        return
    left, top, right, bottom = region.window.xyxy
    assert 0 <= left < right <= 200
    assert 0 <= top < bottom <= 100
    assert min(region.window.width, region.window.height) >= 8
    assert region.mask is not None
    assert region.mask.shape == (100, 200)
    y, x = np.nonzero(region.mask)
    assert (x >= left - 1).all()
    assert (x <= right + 1).all()
    assert (y >= top - 1).all()
    assert (y <= bottom + 1).all()


@given(st.floats(0.0, 80.0), st.floats(1.0, 40.0))
def test_a_pixel_that_is_under_a_mask_in_part_is_painted_over_too(left: float, width: float) -> None:
    image = np.zeros((20, 130, 3), np.uint8)
    right = left + width
    painted = paint_over(image, (((left, 2.0), (right, 2.0), (right, 18.0), (left, 18.0)),))
    assert (painted[2:18, int(left) : int(np.ceil(right))] == GREY).all()
    assert not painted[:, int(np.ceil(right)) + 3 :].any()
    assert not painted[:, : max(0, int(left) - 2)].any()
    assert not image.any()
