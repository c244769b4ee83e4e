"""Other views of a picture, with its boxes: mirrored, moved, scaled, darker or brighter, in other colours."""

import math
from dataclasses import dataclass

import cv2
import numpy as np

from foveate.training.targets import Answers
from pipeline.frames import Image
from pipeline.geometry import BoxArray

_GREY = (127, 127, 127)


@dataclass(frozen=True, slots=True)
class AugmentSettings:
    """How far views go: the scale's limits, the shift as a share of the sides, contrast as the logarithm of a factor,
    brightness 0..255, and ``colour`` like contrast for each channel by itself. ``sharpness`` is how much of what a blur
    takes away is added or left out: lessons were made smaller with care, frames are in haste.
    """

    least_scale: float = 0.6
    most_scale: float = 1.6
    shift: float = 0.2
    contrast: float = 0.3
    brightness: float = 20.0
    colour: float = 0.15
    sharpness: float = 0.8


def augment(
    picture: Image, answers: Answers, settings: AugmentSettings, rng: np.random.Generator
) -> tuple[Image, Answers]:
    """One random view: the picture in its own size, and its boxes moved likewise, not cut to it."""
    height, width = picture.shape[:2]
    scale = math.exp(rng.uniform(math.log(settings.least_scale), math.log(settings.most_scale)))
    across = -scale if rng.random() < 0.5 else scale
    centre_x, centre_y = (0.5 + rng.uniform(-settings.shift, settings.shift, 2)) * (width, height)
    move_x, move_y = width / 2 - across * centre_x, height / 2 - scale * centre_y
    matrix = np.array([[across, 0, move_x], [0, scale, move_y]])
    # OpenCV counts from the middle of the first pixel, boxes from its corner.
    by_middle = matrix + np.array([[0, 0, (across - 1) / 2], [0, 0, (scale - 1) / 2]])
    view = cv2.warpAffine(picture, by_middle, (width, height), flags=cv2.INTER_LINEAR, borderValue=_GREY)
    blurred = cv2.blur(view, (3, 3))
    amount = rng.uniform(-settings.sharpness, settings.sharpness)
    view = cv2.addWeighted(view, 1 + amount, blurred, -amount, 0)
    strength = rng.uniform(-settings.contrast, settings.contrast)
    gains = np.exp(strength + rng.uniform(-settings.colour, settings.colour, 3))
    offset = rng.uniform(-settings.brightness, settings.brightness)
    levels = np.clip(np.arange(256)[:, None] * gains + offset, 0, 255).astype(np.uint8)[None]
    known, ignored = (_moved(boxes, matrix) for boxes in (answers.xyxy, answers.ignored))
    return np.asarray(cv2.LUT(view, levels), np.uint8), Answers(known, answers.class_id, ignored)


def _moved(boxes: BoxArray, matrix: np.typing.NDArray[np.float64]) -> BoxArray:
    x = boxes[:, [0, 2]] * matrix[0, 0] + matrix[0, 2]
    y = boxes[:, [1, 3]] * matrix[1, 1] + matrix[1, 2]
    return np.stack([x.min(axis=1), y.min(axis=1), x.max(axis=1), y.max(axis=1)], axis=1).astype(np.float32)
