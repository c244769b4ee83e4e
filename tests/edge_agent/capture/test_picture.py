import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.capture.picture import DARK_AFTER_S, FROZEN_AFTER_S, Glance, PictureWatch, glance, to_bgr
from pipeline.results import CameraState

LIMIT = 10_000
BRIGHT = {"mean": 100.0, "deviation": 40.0}
BLACK = {"mean": 3.0, "deviation": 2.0}


@settings(deadline=None)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from([None, 1, 3, 4]),
    deep=st.booleans(),
)
def test_every_layout_becomes_three_bytes_a_pixel(height: int, width: int, channels: int | None, *, deep: bool) -> None:
    shape = (height, width) if channels is None else (height, width, channels)
    image = to_bgr(np.full(shape, 0x8000 if deep else 0x80, np.uint16 if deep else np.uint8), LIMIT)
    assert not isinstance(image, str)
    assert image.shape == (height, width, 3)
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous
    assert (image == 0x80).all()


@pytest.mark.parametrize(
    "raw",
    [
        None,
        np.zeros((0, 0, 3), np.uint8),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4,), np.uint8),
        np.zeros((101, 100, 3), np.uint8),
    ],
)
def test_what_is_no_picture_is_refused_with_a_reason(raw: object) -> None:
    refusal = to_bgr(raw, LIMIT)
    assert isinstance(refusal, str)
    assert refusal


def test_a_picture_over_the_limit_is_refused_by_its_size_and_the_limit() -> None:
    refusal = to_bgr(np.zeros((101, 100, 3), np.uint8), LIMIT)
    assert "100x101" in str(refusal)
    assert str(LIMIT) in str(refusal)


@settings(deadline=None)
@given(height=st.integers(1, 70), width=st.integers(1, 70))
def test_a_glance_works_for_every_size(height: int, width: int) -> None:
    look = glance(np.full((height, width, 3), 77, np.uint8))
    assert (look.mean, look.deviation) == pytest.approx((77, 0), abs=1e-3)


def test_a_glance_differs_when_the_picture_does() -> None:
    image = np.zeros((64, 64, 3), np.uint8)
    before = glance(image)
    image[20:40, 20:40] = 9
    assert glance(image) != before


def states(watch: PictureWatch, looks: list[tuple[float, Glance]]) -> list[CameraState]:
    return [watch.see(look, at_s)[0] for at_s, look in looks]


def test_a_camera_is_dark_after_a_second_of_black_and_live_again_after_a_second_of_light() -> None:
    watch = PictureWatch(live=True)
    black = [(n / 10, Glance(**BLACK, checksum=n)) for n in range(20)]
    light = [(2 + n / 10, Glance(**BRIGHT, checksum=100 + n)) for n in range(20)]
    seen = states(watch, black + light)
    assert seen.index(CameraState.DARK) == DARK_AFTER_S * 10
    assert seen[20 + 9] is CameraState.DARK
    assert seen[-1] is CameraState.LIVE


def test_a_single_black_picture_changes_nothing() -> None:
    watch = PictureWatch(live=True)
    looks = [(n / 10, Glance(**(BLACK if n % 5 == 0 else BRIGHT), checksum=n)) for n in range(100)]
    assert set(states(watch, looks)) == {CameraState.LIVE}


def test_the_same_picture_for_ten_seconds_is_frozen_until_it_changes() -> None:
    watch = PictureWatch(live=True)
    same = [(float(n), Glance(**BRIGHT, checksum=7)) for n in range(15)]
    seen = states(watch, [*same, (15.0, Glance(**BRIGHT, checksum=8))])
    assert seen.index(CameraState.FROZEN) == FROZEN_AFTER_S
    assert seen[-1] is CameraState.LIVE


def test_a_file_is_never_frozen() -> None:
    watch = PictureWatch(live=False)
    assert set(states(watch, [(float(n), Glance(**BRIGHT, checksum=7)) for n in range(30)])) == {CameraState.LIVE}


def test_a_black_camera_that_repeats_itself_is_dark() -> None:
    watch = PictureWatch(live=True)
    assert states(watch, [(float(n), Glance(**BLACK, checksum=7)) for n in range(30)])[-1] is CameraState.DARK
