"""A picture into a model's input tensor, and boxes back out of it, exactly."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.detectors.contract import HeightWidth, InputContract
from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size, clip


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a picture lies in the model's input: resized to ``resized``, its top left corner at (left_px, top_px)."""

    picture: Size
    resized: Size
    left_px: int
    top_px: int
    input_px: HeightWidth

    def to_picture(self, boxes: BoxArray) -> BoxArray:
        """Boxes (n, 4) in input pixels as boxes in picture pixels, cut to the picture.

        The scale is that of the rounded size, each axis by itself, so the way back is exact.
        """
        scale_x = self.picture.width / self.resized.width
        scale_y = self.picture.height / self.resized.height
        shift = np.array([self.left_px, self.top_px] * 2, dtype=np.float32)
        scale = np.array([scale_x, scale_y] * 2, dtype=np.float32)
        return clip(np.asarray((boxes - shift) * scale, dtype=np.float32), self.picture)


def place(picture: Size, contract: InputContract, size_px: HeightWidth | None) -> Placement:
    """Decide how a picture is resized and padded.

    ``size_px`` is the input's (height, width). None is native mode: the picture keeps its pixels and is padded right
    and below to a multiple of the stride; only one larger than ``largest_px`` is shrunk to fit into it.
    """
    height, width = size_px or contract.largest_px
    if size_px is not None and contract.resize == "stretch":
        return Placement(picture, Size(width, height), 0, 0, size_px)
    scale = min(height / picture.height, width / picture.width)
    if size_px is None:
        scale = min(scale, 1.0)
    # A very long and thin picture must keep at least one pixel row.
    resized = Size(max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    if size_px is None:
        stride = contract.stride_px
        input_px = (-(-resized.height // stride) * stride, -(-resized.width // stride) * stride)
        return Placement(picture, resized, 0, 0, input_px)
    if contract.resize == "letterbox_centre":
        return Placement(picture, resized, (width - resized.width) // 2, (height - resized.height) // 2, size_px)
    return Placement(picture, resized, 0, 0, size_px)


def check_image(image: Image) -> Size:
    """The size of a picture. Raises ValueError where it is not (height, width, 3) uint8 with at least one pixel."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise ValueError(
            f"a picture must be (height, width, 3) uint8 BGR and not empty, not {image.shape} {image.dtype}"
        )
    return Size(image.shape[1], image.shape[0])


def fill(image: Image, placement: Placement, contract: InputContract, out: NDArray[Any]) -> None:
    """Write one BGR picture into its slot of the batch, ``out`` (3, height, width) or (height, width, 3)."""
    canvas = _canvas(image, placement, contract.pad_value)
    if contract.layout == "NHWC" and contract.dtype == "uint8":  # pixels as they are
        out[...] = canvas if contract.colour == "bgr" else canvas[..., ::-1]
        return
    planes = [cv2.extractChannel(canvas, channel) for channel in ((0, 1, 2) if contract.colour == "bgr" else (2, 1, 0))]
    for channel, (plane, (gain, offset)) in enumerate(zip(planes, _gains(contract), strict=True)):
        slot = out[channel] if contract.layout == "NCHW" else out[..., channel]
        if contract.dtype == "uint8":
            slot[...] = plane
        elif contract.dtype == "float32" and slot.flags.c_contiguous:
            # One pass from bytes to normalised floats; twice as fast as numpy's two.
            cv2.addWeighted(plane, gain, plane, 0.0, offset, dst=slot, dtype=cv2.CV_32F)
        else:
            slot[...] = plane * np.float32(gain) + np.float32(offset)


def _canvas(image: Image, placement: Placement, pad_value: int) -> Image:
    height, width = placement.input_px
    resized = placement.resized
    if resized != placement.picture:
        # To an odd fraction bilinear interpolation takes the middle pixel of each square; this does so faster.
        kind = cv2.INTER_NEAREST_EXACT if _odd_fraction(placement.picture, resized) else cv2.INTER_LINEAR
        image = np.asarray(cv2.resize(image, (resized.width, resized.height), interpolation=kind))
    if (resized.height, resized.width) == (height, width):
        return image
    canvas = np.full((height, width, 3), pad_value, dtype=np.uint8)
    top, left = placement.top_px, placement.left_px
    canvas[top : top + resized.height, left : left + resized.width] = image
    return canvas


def _odd_fraction(picture: Size, resized: Size) -> bool:
    """Whether a picture is made smaller by one odd number in both directions."""
    factor = picture.width // resized.width
    return factor % 2 == 1 and picture == Size(resized.width * factor, resized.height * factor)


@lru_cache(maxsize=32)
def _gains(contract: InputContract) -> tuple[tuple[float, float], ...]:
    return tuple((contract.scale / std, -mean / std) for mean, std in zip(contract.mean, contract.std, strict=True))
