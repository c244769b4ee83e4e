"""What a training is asked for and what it gives: values that cross to its process and back as JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from pipeline.detectors.contract import HeightWidth, ModelEntry

Way = Literal["own", "adapt"]
"""``own``: a small network of the camera's own. ``adapt``: the general model, fine-tuned and made smaller."""


class BaseModel(msgspec.Struct, frozen=True, kw_only=True):
    """The general model that is adapted: its ONNX file, contract, labels and usual input (height, width)."""

    file: Path
    entry: ModelEntry
    labels: tuple[str, ...]
    input_size: HeightWidth


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One training.

    ``labels`` are the classes to learn. ``folder`` is the training's own: checkpoints, progress and result. It is to
    end within ``time_limit_s`` on ``threads`` threads, and its model is to take at most ``most_ms`` per picture on one
    thread of this machine (None: as fast as it gets without losing accuracy). ``start_from`` is an earlier result's
    folder whose weights a student starts from.
    """

    way: Way
    camera: str
    labels: tuple[str, ...]
    folder: Path
    seed: int = 0
    time_limit_s: float = 300.0
    threads: int = 2
    most_ms: float | None = None
    base: BaseModel | None = None
    start_from: Path | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a training is: ``doing`` in words, ``done`` 0..1, and about how many seconds are left."""

    doing: str
    done: float
    left_s: float | None = None
    loss: float | None = None


Say = Callable[[Progress], None]


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """A finished model: its ONNX file, its contract (``entry.sha256`` is the file's), its classes, the input (height,
    width) it was trained for, and what was seen on the way.
    """

    file: Path
    entry: ModelEntry
    labels: tuple[str, ...]
    input_size: HeightWidth
    figures: dict[str, float]
    train_s: float
