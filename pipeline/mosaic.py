"""Crops of one frame packed into one picture, so that one request and one run of the model serve them all."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from pipeline.detections import Detections, Source
from pipeline.frames import Image
from pipeline.geometry import BoxArray, Rect, Size
from pipeline.wire.messages import WireCrop, WireDetection

GREY = 114
"""Filling between crops: the value that the detectors pad with."""


@dataclass(frozen=True, slots=True)
class MosaicSettings:
    """How crops are packed: scale of the crops, gap and step (the model's stride) in pixels, largest picture."""

    scale: float = 0.6
    least_scale: float = 0.3
    gap_px: int = 4
    step_px: int = 32
    widths_px: tuple[int, ...] = (192, 320, 448, 576)
    most_height_px: int = 416


@dataclass(frozen=True, slots=True)
class Layout:
    """A packed mosaic: its size and where each crop lies."""

    size: Size
    crops: tuple[WireCrop, ...]


def to_rects(boxes: BoxArray, size: Size) -> list[Rect]:
    """Integer rectangles around boxes, at least 1 px a side, inside the frame."""
    rects = []
    for x1, y1, x2, y2 in boxes.tolist():
        left, top = min(max(int(x1), 0), size.width - 1), min(max(int(y1), 0), size.height - 1)
        right, bottom = (
            min(max(int(np.ceil(x2)), left + 1), size.width),
            min(max(int(np.ceil(y2)), top + 1), size.height),
        )
        rects.append(Rect(left, top, right - left, bottom - top))
    return rects


def pack(regions: Sequence[Rect], settings: MosaicSettings) -> Layout:
    """Pack regions, the most wanted first, into the smallest picture that shows them at the wished scale.

    When they do not fit, the scale is lowered for all; when that would go below the least scale, the last ones are
    left out. A region that at the least scale is still larger than the picture is scaled by itself, so that others
    fit beside it. Raises ValueError without regions.
    """
    if not regions:
        raise ValueError("no regions to pack")
    wanted = list(regions)
    while True:
        caps = _caps(wanted, settings)
        scale = settings.scale
        while scale >= settings.least_scale:
            layouts = [
                _shelves(wanted, [min(scale, cap) for cap in caps], width, settings) for width in settings.widths_px
            ]
            fitting = [layout for layout in layouts if layout is not None]
            if fitting:
                return min(fitting, key=lambda layout: layout.size.width * layout.size.height)
            scale *= 0.85
        if len(wanted) == 1:
            return _alone(wanted[0], settings)
        wanted.pop()


def _scaled(region: Rect, scale: float) -> tuple[int, int]:
    return max(1, round(region.width * scale)), max(1, round(region.height * scale))


def _rounded(height: int, settings: MosaicSettings) -> int:
    return -(-height // settings.step_px) * settings.step_px


def _caps(regions: Sequence[Rect], settings: MosaicSettings) -> list[float]:
    """The most that each region may be scaled: one too large for any picture gets its part of the height."""
    width, height, least = settings.widths_px[-1], settings.most_height_px, settings.least_scale
    huge = [region.width * least > width or region.height * least > height for region in regions]
    part = max(height / (sum(huge) + (not all(huge))) - settings.gap_px, height / 4)
    return [
        min(width / region.width, part / region.height) if alone else float("inf")
        for region, alone in zip(regions, huge, strict=True)
    ]


def _shelves(regions: Sequence[Rect], scales: Sequence[float], width: int, settings: MosaicSettings) -> Layout | None:
    """First-fit shelves by falling height (FFDH); None when the picture would be too high or too narrow."""
    sizes = [_scaled(region, scale) for region, scale in zip(regions, scales, strict=True)]
    order = sorted(range(len(regions)), key=lambda i: -sizes[i][1])
    shelves: list[list[int]] = []  # top, height, used width
    placed: dict[int, tuple[int, int, int, int]] = {}
    bottom = 0
    for index in order:
        w, h = sizes[index]
        if w > width:
            return None
        shelf = next((s for s in shelves if s[2] + w <= width and h <= s[1]), None)
        if shelf is None:
            shelf = [bottom, h, 0]
            shelves.append(shelf)
            bottom += h + settings.gap_px
        placed[index] = (shelf[2], shelf[0], w, h)
        shelf[2] += w + settings.gap_px
    height = _rounded(bottom - settings.gap_px, settings)
    if height > settings.most_height_px:
        return None
    return Layout(Size(width, height), tuple(_crop(placed[i], regions[i]) for i in range(len(regions))))


def _alone(region: Rect, settings: MosaicSettings) -> Layout:
    """One region shrunk until it fits."""
    width = settings.widths_px[-1]
    scale = min(width / region.width, settings.most_height_px / region.height, settings.scale)
    w, h = _scaled(region, scale)
    return Layout(Size(width, _rounded(h, settings)), (_crop((0, 0, w, h), region),))


def _crop(placed: tuple[int, int, int, int], region: Rect) -> WireCrop:
    return WireCrop(placed, (region.x, region.y, region.width, region.height))


def whole_frame(size: Size, most_width_px: int, most_height_px: int) -> Layout:
    """The whole frame as one crop, shrunk to fit."""
    scale = min(1.0, most_width_px / size.width, most_height_px / size.height)
    w, h = _scaled(Rect(0, 0, size.width, size.height), scale)
    return Layout(Size(w, h), (WireCrop((0, 0, w, h), (0, 0, size.width, size.height)),))


def render(image: Image, layout: Layout) -> Image:
    """Draw the mosaic: (height, width, 3) uint8 BGR."""
    canvas = np.full((layout.size.height, layout.size.width, 3), GREY, np.uint8)
    for crop in layout.crops:
        x, y, w, h = crop.placed
        rx, ry, rw, rh = crop.region
        # Averaging over areas is three times dearer, and shows only where more than half of the pixels go.
        rough = 2 * w < rw or 2 * h < rh
        cv2.resize(
            image[ry : ry + rh, rx : rx + rw],
            (w, h),
            dst=canvas[y : y + h, x : x + w],
            interpolation=cv2.INTER_AREA if rough else cv2.INTER_LINEAR,
        )
    return canvas


def regions_xyxy(layout: Layout) -> BoxArray:
    """The frame regions (n, 4) that a layout shows."""
    rows = [(x, y, x + w, y + h) for x, y, w, h in (c.region for c in layout.crops)]
    return np.array(rows, dtype=np.float32).reshape(-1, 4)


def shown_px(layout: Layout) -> int:
    """How many pixels of the frame a layout shows, overlaps counted twice."""
    return sum(crop.region[2] * crop.region[3] for crop in layout.crops)


def to_frame(crop: WireCrop, found: Sequence[WireDetection]) -> Detections:
    """Detections of one crop, in crop pixels as sent, as detections in frame pixels."""
    _, _, w, h = crop.placed
    x, y, rw, rh = crop.region
    boxes = np.array([d.box for d in found], dtype=np.float32).reshape(-1, 4)
    zoom = np.array([rw / w, rh / h, rw / w, rh / h], dtype=np.float32)
    boxes = boxes * zoom + np.array([x, y, x, y], dtype=np.float32)
    return Detections.of(boxes, [d.score for d in found], [d.label for d in found], Source.CLOUD)
