"""Objects of other moments put into a picture, so that the scene is seen with more gatherings than there were.

Where an object was, it fits by itself, since the camera is fixed. Elsewhere it is blended in, in another size or
mirrored: a camera's next visitors come to places where nobody has been yet, and its pupil must not take the ground for
a part of the person.

*Source* Dwibedi et al., "Cut, Paste and Learn", ICCV 2017, sections 4 and 5, with an ellipse in place of a mask.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from foveate.training.targets import Answers
from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size, clip, coverage, intersection


@dataclass(frozen=True, slots=True)
class PasteSettings:
    """Up to ``most`` objects come from another picture, the ``elsewhere`` share of them to another place, in at least
    ``least_scale`` and at most ``most_scale`` of their size, hiding at most ``most_hidden`` of what is known there.

    With one in its own place comes ``seam_px`` of what is around it, and only where both pictures differ by at most
    ``most_seam`` levels there: else the light is another, or something else is there.
    """

    most: int = 4
    elsewhere: float = 0.5
    least_scale: float = 0.6
    most_scale: float = 1.7
    most_hidden: float = 0.3
    seam_px: int = 3
    most_seam: float = 12.0


def paste(
    picture: Image,
    answers: Answers,
    other: tuple[Image, Answers],
    settings: PasteSettings,
    rng: np.random.Generator,
) -> tuple[Image, Answers]:
    """A copy of the picture with some objects of ``other``, never on top of what is doubtful."""
    source, theirs = other
    whole = np.flatnonzero(~_crowded(theirs))
    chosen = rng.permutation(whole)[: rng.integers(settings.most + 1)]
    if len(chosen) == 0:
        return picture, answers
    made, boxes, class_ids = picture.copy(), list(answers.xyxy), list(answers.class_id)
    for row in chosen:
        put = _elsewhere if rng.random() < settings.elsewhere else _in_place
        taken = Answers(np.array(boxes, np.float32).reshape(-1, 4), answers.class_id, answers.ignored)
        box = put(made, source, theirs.xyxy[row], taken, settings, rng)
        if box is not None:
            boxes.append(box)
            class_ids.append(theirs.class_id[row])
    return made, Answers(np.array(boxes, np.float32).reshape(-1, 4), np.array(class_ids, np.intp), answers.ignored)


def _crowded(answers: Answers) -> NDArray[np.bool_]:
    """Which objects (n,) overlap another one, or doubt, so that they cannot be cut out alone."""
    others = np.concatenate([answers.xyxy, answers.ignored])
    return np.asarray((intersection(answers.xyxy, others) > 0).sum(axis=1) > 1)


def _in_place(
    made: Image,
    source: Image,
    box: NDArray[np.float32],
    taken: Answers,
    settings: PasteSettings,
    _: np.random.Generator,
) -> NDArray[np.float32] | None:
    margin = settings.seam_px
    outline = clip((box + np.array([-margin, -margin, margin, margin], np.float32))[None], _size(made))
    if intersection(outline, np.concatenate([taken.xyxy, taken.ignored])).any():
        return None
    x1, y1, x2, y2 = outline[0].astype(int)
    here, there = made[y1:y2, x1:x2], source[y1:y2, x1:x2]
    if min(here.shape[:2]) <= 2 * margin or _seam(here, there, margin) > settings.most_seam:
        return None
    here[...] = there
    return box


def _elsewhere(
    made: Image,
    source: Image,
    box: NDArray[np.float32],
    taken: Answers,
    settings: PasteSettings,
    rng: np.random.Generator,
) -> NDArray[np.float32] | None:
    x1, y1, x2, y2 = clip(box[None], _size(source))[0].round().astype(int)
    scale = math.exp(rng.uniform(math.log(settings.least_scale), math.log(settings.most_scale)))
    width, height = round((x2 - x1) * scale), round((y2 - y1) * scale)
    size = _size(made)
    if min(x2 - x1, y2 - y1, width, height) < 4 or width >= size.width or height >= size.height:
        return None
    left, top = int(rng.integers(size.width - width)), int(rng.integers(size.height - height))
    place: BoxArray = np.array([[left, top, left + width, top + height]], np.float32)
    hidden = coverage(taken.xyxy, place).max(initial=0)
    if hidden > settings.most_hidden or intersection(place, taken.ignored).any():
        return None
    patch = cv2.resize(source[y1:y2, x1:x2], (width, height), interpolation=cv2.INTER_LINEAR)
    patch = patch[:, ::-1] if rng.random() < 0.5 else patch
    here = made[top : top + height, left : left + width]
    share = cv2.resize(_ellipse(), (width, height), interpolation=cv2.INTER_AREA)[:, :, None]
    here[...] = patch * share + here * (1 - share)
    return np.asarray(place[0])


@lru_cache(maxsize=1)
def _ellipse(side_px: int = 64) -> NDArray[np.float32]:
    """How much of a patch shows (side, side): all in the middle, nothing at the corners."""
    x = (np.arange(side_px, dtype=np.float32) + 0.5) / side_px * 2 - 1
    # Between an ellipse and a rectangle: feet and head are at the box's short sides.
    reach = (np.abs(x) ** 3)[:, None] + (np.abs(x) ** 3)[None, :]
    share = np.clip((1.3 - reach) / 0.5, 0, 1).astype(np.float32)
    share.setflags(write=False)
    return np.asarray(share)


def _size(picture: Image) -> Size:
    return Size(picture.shape[1], picture.shape[0])


def _seam(here: Image, there: Image, width_px: int) -> float:
    """The mean difference of two pictures of one size along their edges, 0..255."""
    apart = cv2.absdiff(here, there).mean(axis=2)
    inner = apart[width_px:-width_px, width_px:-width_px]
    return float((apart.sum() - inner.sum()) / (apart.size - inner.size))
