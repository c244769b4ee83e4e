"""What a model file promises: how a picture goes in, and what comes out. Nothing about it is ever guessed."""

from typing import Literal

import msgspec

HeightWidth = tuple[int, int]
"""(height, width) in pixels."""


class InputContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a picture becomes the model's input tensor.

    A tensor value is ``(pixel * scale - mean) / std`` with ``mean`` and ``std`` in the order of ``colour``.
    ``size_px`` is the usual input as (height, width), ``largest_px`` the limit of native mode, in which a picture keeps
    its own pixels; both are multiples of ``stride_px``.
    """

    name: str
    layout: Literal["NCHW", "NHWC"]
    colour: Literal["bgr", "rgb"]
    dtype: Literal["float32", "float16", "uint8"]
    scale: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resize: Literal["letterbox_top_left", "letterbox_centre", "stretch"]
    pad_value: int
    stride_px: int
    size_px: HeightWidth
    largest_px: HeightWidth

    def __post_init__(self) -> None:
        if min(self.std) <= 0 or not 0 <= self.pad_value <= 255 or self.stride_px < 1:
            raise ValueError(
                f"std {self.std} must be above 0, pad_value {self.pad_value} in 0..255, stride_px {self.stride_px} >= 1"
            )
        for side in (*self.size_px, *self.largest_px):
            if side < 1 or side % self.stride_px:
                raise ValueError(f"side {side} px is not a positive multiple of stride_px {self.stride_px}")
        if self.dtype == "uint8" and (self.scale, *self.mean, *self.std) != (1, 0, 0, 0, 1, 1, 1):
            raise ValueError("a uint8 input takes pixels as they are: scale 1, mean 0, std 1")


class OutputContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model's outputs mean. ``head`` names the decode function; the rest is what it needs to know.

    ``outputs`` are the tensor names in the order that the head documents. ``classes`` is the number of classes,
    ``bins`` the number of steps of a box distribution (0 where the head has none).
    """

    head: str
    outputs: tuple[str, ...]
    strides: tuple[int, ...]
    classes: int
    bins: int = 0
    nms_iou: float = 0.6
    max_detections: int = 300

    def __post_init__(self) -> None:
        if self.classes < 1 or self.max_detections < 1 or not 0 < self.nms_iou <= 1:
            raise ValueError(
                f"classes {self.classes} and max_detections {self.max_detections} must be at least 1, "
                f"nms_iou {self.nms_iou} in (0, 1]"
            )


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of the manifest. ``file`` and ``labels`` are relative to the manifest's folder."""

    name: str
    version: str
    file: str
    sha256: str
    licence: str
    source: str
    input: InputContract
    output: OutputContract
    labels: str | None = None
    measured: dict[str, int | float | str] = {}
