from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.detectors.contract import InputContract
from pipeline.detectors.onnx import tensor_shape
from pipeline.detectors.preprocess import check_image, fill, place
from pipeline.frames import Image
from pipeline.geometry import Size
from tests.support.onnx_models import entry

MEAN, STD = (103.53, 116.28, 123.675), (57.375, 57.12, 58.395)
NATIVE = {"stride_px": 32, "size_px": (416, 576), "largest_px": (416, 576)}


def prepare(image: Image, contract: InputContract, size_px: tuple[int, int] | None) -> NDArray[Any]:
    placement = place(check_image(image), contract, size_px)
    out = np.empty(tensor_shape(contract, 1, placement.input_px), contract.dtype)
    fill(image, placement, contract, out[0])
    return out


@settings(deadline=None)
@given(
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.sampled_from(["letterbox_top_left", "letterbox_centre", "stretch"]),
    st.booleans(),
)
def test_boxes_go_into_the_input_and_back_exactly(width: int, height: int, resize: str, native: bool) -> None:
    contract = entry(inputs=NATIVE | {"resize": resize}).input
    placement = place(Size(width, height), contract, None if native else (192, 256))
    limit = contract.largest_px if native else (192, 256)
    assert all(side % 32 == 0 and side <= most for side, most in zip(placement.input_px, limit, strict=True))
    assert 1 <= placement.resized.width <= placement.input_px[1] - placement.left_px
    assert 1 <= placement.resized.height <= placement.input_px[0] - placement.top_px
    left, top = placement.left_px, placement.top_px
    whole = [left, top, left + placement.resized.width, top + placement.resized.height]
    np.testing.assert_allclose(placement.to_picture(np.array([whole], np.float32)), [[0, 0, width, height]], rtol=1e-5)


def test_a_square_at_the_right_edge_stays_square_and_reaches_the_edge() -> None:
    placement = place(Size(1280, 720), entry().input, (640, 640))
    assert placement.resized == Size(640, 360)
    found = placement.to_picture(np.array([[540, 100, 640, 200]], np.float32))
    assert found.tolist() == [[1080, 200, 1280, 400]]


def test_native_mode_keeps_every_pixel_of_a_picture_that_fits_and_pads_right_and_below() -> None:
    image = np.random.default_rng(0).integers(0, 256, (70, 576, 3), dtype=np.uint8)
    tensor = prepare(image, entry(inputs=NATIVE).input, None)
    assert tensor.shape == (1, 3, 96, 576)
    np.testing.assert_array_equal(tensor[0, :, :70].transpose(1, 2, 0), image)
    assert (tensor[0, :, 70:] == 114).all()


def test_native_mode_shrinks_what_is_larger_than_the_limit() -> None:
    placement = place(Size(768, 576), entry(inputs=NATIVE).input, None)
    assert (placement.resized, placement.input_px) == (Size(555, 416), (416, 576))


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (1, 4000), (4000, 1), (361, 641)])
def test_tiny_and_extreme_pictures_are_taken(size: tuple[int, int]) -> None:
    for mode in ((192, 256), None):
        assert np.isfinite(prepare(np.full((*size, 3), 200, np.uint8), entry(inputs=NATIVE).input, mode)).all()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("colour", ["bgr", "rgb"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_tensor_is_what_the_contract_says(layout: str, colour: str, dtype: str) -> None:
    declared = {"layout": layout, "colour": colour, "dtype": dtype, "scale": 0.5, "mean": MEAN, "std": STD}
    image = np.random.default_rng(3).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    tensor = prepare(image, entry(inputs=declared).input, (64, 64))
    resized = cv2.resize(image, (64, 48), interpolation=cv2.INTER_LINEAR)
    pixels = np.full((64, 64, 3), 114, np.float32)
    pixels[:48] = resized
    if colour == "rgb":
        pixels = pixels[..., ::-1]
    expected = (pixels * 0.5 - np.array(MEAN)) / np.array(STD)
    got = tensor[0] if layout == "NHWC" else tensor[0].transpose(1, 2, 0)
    assert tensor.dtype == np.dtype(dtype)
    np.testing.assert_allclose(got, expected, atol=1e-5 if dtype == "float32" else 1e-3)


def test_a_uint8_input_takes_the_pixels_as_they_are() -> None:
    image = np.random.default_rng(4).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    tensor = prepare(image, entry(inputs={"dtype": "uint8", "layout": "NHWC"}).input, (64, 64))
    np.testing.assert_array_equal(tensor[0], image)


def test_a_read_only_picture_is_taken_and_left_alone() -> None:
    image = np.full((64, 64, 3), 7, np.uint8)
    image.setflags(write=False)
    assert (prepare(image, entry().input, (64, 64)) == 7).all()


@pytest.mark.parametrize(
    "image",
    [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((0, 4, 3), np.uint8), np.zeros((4, 4, 3))],
)
def test_what_is_no_picture_is_refused_with_its_shape(image: Any) -> None:
    with pytest.raises(ValueError, match=r"\(height, width, 3\) uint8 BGR"):
        check_image(image)


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5])
def test_a_picture_is_made_smaller_as_by_bilinear_interpolation_whatever_the_factor(factor: int) -> None:
    image = np.random.default_rng(factor).integers(0, 256, (96 * factor, 64 * factor, 3), dtype=np.uint8)
    made = prepare(image, entry(inputs={"dtype": "uint8", "layout": "NHWC"}).input, (96, 64))[0]
    np.testing.assert_array_equal(made, cv2.resize(image, (64, 96), interpolation=cv2.INTER_LINEAR))
