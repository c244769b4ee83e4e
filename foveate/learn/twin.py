"""The 8-bit twin of a trained model, calibrated on the lessons that the model has learned from."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_agent.lessons.store import LessonStore
from foveate.learn.values import LearnedModel
from foveate.models.quantize import quantize_file
from pipeline.detectors.onnx import tensor_shape
from pipeline.detectors.preprocess import check_image, fill, place

CALIBRATED_ON = 90
"""Pictures, the rarest first: more of them change the ranges no further."""


def eight_bit_twin(model: LearnedModel, lessons: Path) -> LearnedModel:
    """Quantise a model into a file beside it, by some of the lessons in a folder; blocks.

    Raises ModelError where the package onnx is missing.
    """
    target = model.file.with_name(f"{model.file.stem}-int8.onnx")
    quantize_file(model.file, target, _inputs(model, lessons))
    entry = msgspec.structs.replace(
        model.entry,
        version=f"{model.entry.version}-int8",
        file=target.name,
        sha256=hashlib.sha256(target.read_bytes()).hexdigest(),
    )
    return msgspec.structs.replace(model, file=target, entry=entry)


def _inputs(model: LearnedModel, lessons: Path) -> Iterator[dict[str, NDArray[Any]]]:
    contract, size = model.entry.input, model.input_size
    for lesson in LessonStore(lessons).read(CALIBRATED_ON):
        tensor = np.empty(tensor_shape(contract, 1, size), dtype=contract.dtype)
        fill(lesson.picture, place(check_image(lesson.picture), contract, size), contract, tensor[0])
        yield {contract.name: tensor}
