"""Crops packed into one picture: nothing overlaps, everything lies inside, and boxes find their way back."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.detections import Source
from pipeline.geometry import Rect, Size
from pipeline.mosaic import (
    GREY,
    Layout,
    MosaicSettings,
    pack,
    regions_xyxy,
    render,
    to_frame,
    to_rects,
    whole_frame,
)
from pipeline.wire.messages import WireCrop, WireDetection

FRAME = Size(768, 576)
SETTINGS = MosaicSettings(widths_px=(192, 320, 448, 576), most_height_px=416)

region = st.tuples(st.integers(0, 700), st.integers(0, 500), st.integers(1, 768), st.integers(1, 576)).map(
    lambda r: Rect(r[0], r[1], min(r[2], 768 - r[0]), min(r[3], 576 - r[1]))
)
regions = st.lists(region, min_size=1, max_size=20)


def mosaic_settings() -> st.SearchStrategy[MosaicSettings]:
    return st.builds(
        MosaicSettings,
        scale=st.floats(0.3, 1.5),
        least_scale=st.floats(0.1, 0.6),
        gap_px=st.integers(0, 8),
        step_px=st.sampled_from([1, 32]),
        widths_px=st.sampled_from([(192, 320, 448, 576), (576,)]),
        most_height_px=st.sampled_from([96, 416]),
    )


@given(regions, mosaic_settings())
@settings(deadline=None)
def test_crops_never_overlap_and_lie_inside(wanted: list[Rect], how: MosaicSettings) -> None:
    layout = pack(wanted, how)
    taken = np.zeros((layout.size.height, layout.size.width), int)
    for crop in layout.crops:
        x, y, w, h = crop.placed
        assert min(x, y) >= 0
        assert min(w, h) >= 1
        assert x + w <= layout.size.width
        assert y + h <= layout.size.height
        taken[y : y + h, x : x + w] += 1
    assert taken.max() == 1
    assert layout.size.width in how.widths_px
    assert layout.size.height <= how.most_height_px
    assert layout.size.height % how.step_px == 0


@given(regions, mosaic_settings())
@settings(deadline=None)
def test_the_most_wanted_regions_are_shown_in_order_at_one_scale(wanted: list[Rect], how: MosaicSettings) -> None:
    layout = pack(wanted, how)
    shown = [Rect(*crop.region) for crop in layout.crops]
    assert len(shown) >= 1
    assert shown == wanted[: len(shown)]
    if len(shown) > 1:
        # Those that do not fit at the least scale have scales of their own.
        usual = [c for c in layout.crops if 50 <= c.region[2] <= 576 / how.least_scale]
        usual = [c for c in usual if c.region[3] <= how.most_height_px / how.least_scale]
        scales = [(c.placed[2] / c.region[2], c.region[2]) for c in usual]
        assert all(abs(a - b) <= 0.5 / wa + 0.5 / wb + 1e-9 for a, wa in scales for b, wb in scales)
        assert all(scale >= how.least_scale - 0.5 / width - 1e-9 for scale, width in scales)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("huge", [Rect(0, 0, 3000, 1600), Rect(0, 0, 3800, 300), Rect(0, 0, 400, 2100)])
def test_a_region_larger_than_the_picture_leaves_room_for_the_others(huge: Rect, place: int) -> None:
    small = [Rect(3100, 100, 200, 300), Rect(3400, 1700, 150, 150)]
    wanted = [*small[:place], huge, *small[place:]]
    shown = {Rect(*crop.region): crop.placed[2] / crop.region[2] for crop in pack(wanted, SETTINGS).crops}
    assert list(shown) == wanted
    assert all(shown[region] >= SETTINGS.least_scale * 0.98 for region in small)
    assert shown[huge] < SETTINGS.least_scale


@given(regions, mosaic_settings(), st.data())
@settings(deadline=None)
def test_a_box_in_a_crop_maps_to_the_frame_and_back_exactly_to_rounding(
    wanted: list[Rect], how: MosaicSettings, data: st.DataObject
) -> None:
    layout = pack(wanted, how)
    crop = data.draw(st.sampled_from(layout.crops))
    _, _, w, h = crop.placed
    x1, x2 = sorted(data.draw(st.tuples(st.floats(0, w), st.floats(0, w))))
    y1, y2 = sorted(data.draw(st.tuples(st.floats(0, h), st.floats(0, h))))
    found = to_frame(crop, [WireDetection("person", 0.7, (x1, y1, x2, y2))])
    rx, ry, rw, rh = crop.region
    assert rx - 1e-3 <= found.xyxy[0, 0] <= found.xyxy[0, 2] <= rx + rw + 1e-3
    assert ry - 1e-3 <= found.xyxy[0, 1] <= found.xyxy[0, 3] <= ry + rh + 1e-3
    back = (found.xyxy[0] - [rx, ry, rx, ry]) * [w / rw, h / rh, w / rw, h / rh]
    assert back == pytest.approx([x1, y1, x2, y2], abs=1e-3)


def test_the_wished_scale_is_kept_where_it_fits() -> None:
    layout = pack([Rect(0, 0, 200, 100), Rect(300, 300, 80, 160)], MosaicSettings(scale=0.75))
    assert [crop.placed[2:] for crop in layout.crops] == [(150, 75), (60, 120)]


def test_the_smallest_picture_that_fits_is_taken() -> None:
    layout = pack([Rect(0, 0, 100, 100)], MosaicSettings(scale=0.75))
    assert layout.size == Size(192, 96)


def test_what_does_not_fit_even_at_the_least_scale_leaves_the_last_ones_out() -> None:
    whole = [Rect(0, 0, 768, 576)] * 9
    layout = pack(whole, MosaicSettings(scale=0.75, least_scale=0.3))
    assert 1 <= len(layout.crops) < 9


@pytest.mark.parametrize("shape", [(4000, 1), (1, 4000), (4000, 3000)])
def test_one_extreme_region_is_shrunk_until_it_fits(shape: tuple[int, int]) -> None:
    layout = pack([Rect(0, 0, *shape)], SETTINGS)
    _, _, w, h = layout.crops[0].placed
    assert 1 <= w <= layout.size.width <= 576
    assert 1 <= h <= layout.size.height <= 416


def test_no_region_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no regions"):
        pack([], SETTINGS)


@pytest.mark.parametrize(
    ("size", "expected"), [(Size(768, 576), (555, 416)), (Size(320, 240), (320, 240)), (Size(4000, 1), (576, 1))]
)
def test_a_whole_frame_is_one_crop_shrunk_to_fit_and_never_enlarged(size: Size, expected: tuple[int, int]) -> None:
    layout = whole_frame(size, 576, 416)
    assert layout.crops == (WireCrop((0, 0, *expected), (0, 0, size.width, size.height)),)
    assert layout.size == Size(*expected)


@given(
    st.lists(st.tuples(*[st.floats(-100, 900)] * 4), max_size=10),
    st.sampled_from([Size(768, 576), Size(1, 1), Size(3, 2), Size(4000, 1)]),
)
def test_integer_rectangles_hold_their_boxes_and_lie_in_the_frame(
    rows: list[tuple[float, float, float, float]], size: Size
) -> None:
    given_boxes = np.array(rows, np.float32).reshape(-1, 4)
    rects = to_rects(given_boxes, size)
    assert len(rects) == len(rows)
    for rect, (x1, y1, x2, y2) in zip(rects, given_boxes.tolist(), strict=True):
        assert min(rect.x, rect.y) >= 0
        assert min(rect.width, rect.height) >= 1
        assert rect.x + rect.width <= size.width
        assert rect.y + rect.height <= size.height
        left, top, right, bottom = rect.xyxy
        assert left <= max(x1, 0)
        assert top <= max(y1, 0)
        assert right >= min(x2, size.width)
        assert bottom >= min(y2, size.height)


def test_the_picture_shows_the_regions_where_they_were_placed_and_grey_elsewhere() -> None:
    image = np.zeros((576, 768, 3), np.uint8)
    image[100:200, 300:400] = (10, 20, 30)
    image[400:500, 0:100] = (200, 100, 50)
    layout = pack([Rect(300, 100, 100, 100), Rect(0, 400, 100, 100)], MosaicSettings(scale=0.5))
    picture = render(image, layout)
    assert picture.shape == (layout.size.height, layout.size.width, 3)
    left = np.ones(picture.shape[:2], bool)
    for crop, colour in zip(layout.crops, ((10, 20, 30), (200, 100, 50)), strict=True):
        x, y, w, h = crop.placed
        assert (picture[y : y + h, x : x + w] == colour).all()
        left[y : y + h, x : x + w] = False
    assert (picture[left] == GREY).all()


@pytest.mark.parametrize("scale", [0.3, 0.5, 0.65, 0.75, 1.0, 1.4])
def test_a_rectangle_in_the_frame_is_found_in_the_picture_where_its_box_maps_to(scale: float) -> None:
    image = np.full((576, 768, 3), 40, np.uint8)
    x1, y1, x2, y2 = 340, 150, 380, 230
    image[y1:y2, x1:x2] = 240
    layout = pack([Rect(0, 0, 60, 60), Rect(301, 103, 157, 171)], MosaicSettings(scale=scale, least_scale=0.1))
    crop = layout.crops[1]
    x, y, w, h = crop.placed
    bright = np.argwhere(render(image, layout)[y : y + h, x : x + w, 0] > 140)
    (top, left), (bottom, right) = bright.min(axis=0).tolist(), (bright.max(axis=0) + 1).tolist()
    found = to_frame(crop, [WireDetection("thing", 1.0, (left, top, right, bottom))])
    assert found.xyxy[0] == pytest.approx([x1, y1, x2, y2], abs=1.0 / scale)
    assert found.source.tolist() == [Source.CLOUD.value]


def test_regions_are_told_as_corners() -> None:
    layout = Layout(FRAME, (WireCrop((0, 0, 5, 5), (10, 20, 30, 40)), WireCrop((5, 0, 5, 5), (1, 2, 3, 4))))
    assert regions_xyxy(layout).tolist() == [[10, 20, 40, 60], [1, 2, 4, 6]]


def test_an_answer_without_detections_is_an_empty_answer() -> None:
    assert len(to_frame(WireCrop((0, 0, 5, 5), (10, 20, 30, 40)), [])) == 0


def test_a_read_only_frame_is_drawn_from_and_stays_as_it_is() -> None:
    image = np.random.default_rng(1).integers(0, 255, (576, 768, 3), dtype=np.uint8)
    before = image.copy()
    image.setflags(write=False)
    picture = render(image, whole_frame(FRAME, 768, 576))
    assert np.array_equal(picture, before)
    assert cv2.imencode(".jpg", picture)[0]
    assert np.array_equal(image, before)
