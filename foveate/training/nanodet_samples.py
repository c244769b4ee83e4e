"""Lessons as the general model takes them in: placed as its detector does it, with the larger model's scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_agent.lessons.lesson import Lesson
from foveate.training.augment import AugmentSettings, augment
from foveate.training.dataset import MOST_PICTURE_BYTES, Samples
from foveate.training.nanodet_loss import Targets
from foveate.training.targets import Answers
from pipeline.detectors.contract import HeightWidth, InputContract
from pipeline.detectors.preprocess import Placement, check_image, fill, place
from pipeline.geometry import BoxArray, Size, area, clip

LEAST_SHOWN = 0.4
"""Of an object of which less than this share is left in a view nothing is learned."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Samples, and for each the larger model's scores (n,) float32 of its objects."""

    samples: Samples
    scores: tuple[NDArray[np.float32], ...]

    def __len__(self) -> int:
        return len(self.samples)

    def thinned(self, most: int) -> "Scored":
        """All, or where they are more than ``most`` so many, evenly spread."""
        chosen = np.unique(np.linspace(0, len(self) - 1, min(most, len(self))).astype(int)).tolist()
        answers = tuple(self.samples.answers[index] for index in chosen)
        return Scored(Samples(self.samples.pictures[chosen], answers), tuple(self.scores[index] for index in chosen))


def prepare(lessons: Sequence[Lesson], labels: Sequence[str], contract: InputContract, input_px: HeightWidth) -> Scored:
    """Lessons at (height, width), pictures uint8 in the contract's colours; objects of other labels are left out."""
    height, width = input_px
    lessons = thinned(lessons, max(1, MOST_PICTURE_BYTES // (height * width * 3)))
    pixels = msgspec.structs.replace(
        contract, layout="NHWC", dtype="uint8", scale=1.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)
    )
    pictures = np.empty((len(lessons), height, width, 3), np.uint8)
    answers, scores = [], []
    for slot, lesson in zip(pictures, lessons, strict=True):
        placement = place(check_image(lesson.picture), contract, input_px)
        fill(lesson.picture, placement, pixels, slot)
        wanted = lesson.known.select(np.isin(lesson.known.label, labels))
        class_id = np.array([labels.index(label) for label in wanted.label], np.intp)
        answers.append(Answers(into_input(wanted.xyxy, placement), class_id, into_input(lesson.ignored, placement)))
        scores.append(wanted.score.astype(np.float32))
    return Scored(Samples(pictures, tuple(answers)), tuple(scores))


def joined(one: Scored, other: Scored) -> Scored:
    """The samples of both, at one input, in this order."""
    pictures = np.concatenate([one.samples.pictures, other.samples.pictures])
    return Scored(Samples(pictures, one.samples.answers + other.samples.answers), one.scores + other.scores)


def thinned(lessons: Sequence[Lesson], most: int) -> list[Lesson]:
    """All lessons, or where they are more than ``most`` so many, evenly spread."""
    if len(lessons) <= most:
        return list(lessons)
    return [lessons[index] for index in np.linspace(0, len(lessons) - 1, most).astype(int)]


def into_input(boxes: BoxArray, placement: Placement) -> BoxArray:
    """Boxes (n, 4) of a picture in input pixels."""
    scale = [placement.resized.width / placement.picture.width, placement.resized.height / placement.picture.height]
    moved = boxes.reshape(-1, 4) * np.array(scale * 2) + [placement.left_px, placement.top_px] * 2
    return np.asarray(moved, np.float32)


def tensor(pictures: NDArray[np.uint8], contract: InputContract) -> Tensor:
    """Pictures (batch, height, width, 3) as the network's input (batch, 3, height, width) float32."""
    values = torch.from_numpy(pictures).permute(0, 3, 1, 2).float()
    mean, std = (torch.tensor(each).reshape(3, 1, 1) for each in (contract.mean, contract.std))
    return (values * contract.scale - mean) / std


def view(
    scored: Scored, index: int, settings: AugmentSettings, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], Targets]:
    """One random view of a sample, and what is to be said of it."""
    seen, moved = augment(scored.samples.pictures[index], scored.samples.answers[index], settings, rng)
    size = Size(seen.shape[1], seen.shape[0])
    cut = clip(moved.xyxy, size)
    shown = area(cut) >= LEAST_SHOWN * area(moved.xyxy)
    ignored = np.concatenate([clip(moved.ignored, size), cut[~shown]])
    return seen, Targets(
        torch.from_numpy(cut[shown]),
        torch.from_numpy(moved.class_id[shown]),
        torch.from_numpy(scored.scores[index][shown]),
        torch.from_numpy(ignored),
    )
