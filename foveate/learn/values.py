"""What is asked of an attempt at a camera's model and what came of it: values that cross processes and stay on disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from foveate.training.order import Way
from pipeline.detectors.contract import HeightWidth, ModelEntry

T = TypeVar("T")


class GeneralModel(msgspec.Struct, frozen=True, kw_only=True):
    """The edge model of the configuration: what a trained model must not be worse than."""

    name: str
    input_size: HeightWidth
    models_dir: Path | None = None


class LearnedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of one camera as a file with its contract, its classes, and the input that it was trained for."""

    file: Path
    entry: ModelEntry
    labels: tuple[str, ...]
    input_size: HeightWidth

    @property
    def title(self) -> str:
        """The model as name@version."""
        return f"{self.entry.name}@{self.entry.version}"


class AttemptOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a model for a camera.

    ``lessons`` and ``folder`` are its own folders of lessons and for work. ``ways`` are tried in order, each within
    ``time_limit_s``, until a model is accepted, beside the general model and the ``current`` one where there is one.
    ``objects`` are the classes that the camera reports (empty: those that its lessons know), ``threshold`` the score
    from which it publishes. ``start_from`` is a folder with the weights of an earlier network to start one from.
    ``changed_at_s`` (Unix seconds) is since when the camera shows what a model of its was not right about: lessons from
    before teach, and never judge.
    """

    camera: str
    lessons: Path
    folder: Path
    general: GeneralModel
    ways: tuple[Way, ...]
    objects: tuple[str, ...] = ()
    threshold: float = 0.4
    threads: int = 1
    time_limit_s: float = 300.0
    most_ms: float | None = None
    seed: int = 0
    current: LearnedModel | None = None
    start_from: Path | None = None
    changed_at_s: float | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One way that was tried: whether its model was accepted, in its float or 8-bit build, why, and the figures."""

    way: Way
    accepted: bool
    reasons: tuple[str, ...]
    build: str = ""
    figures: dict[str, float] = {}
    train_s: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an attempt. ``model`` is the accepted one, None where none was; ``at`` and the data span (oldest
    and newest lesson learned from) are wall times as RFC 3339. ``lessons`` are all that the store had, ``judged`` those
    that judged.
    """

    camera: str
    at: str
    lessons: int
    judged: int
    tried: tuple[Tried, ...]
    learned_from: str = ""
    learned_to: str = ""
    teacher: str = ""
    model: LearnedModel | None = None
    fault: str = ""

    @property
    def accepted(self) -> bool:
        return self.model is not None

    @property
    def way(self) -> Way | None:
        """The way of the accepted model."""
        return next((one.way for one in self.tried if one.accepted), None)

    def in_words(self) -> str:
        """The outcome as one sentence."""
        if self.fault:
            return f"no model: {self.fault}"
        if self.accepted:
            tried = next(one for one in self.tried if one.accepted)
            return f"accepted ({tried.way}, {tried.build}): {_joined(tried.reasons)}"
        return "refused: " + "; ".join(f"{one.way}: {_joined(one.reasons)}" for one in self.tried)


def _joined(reasons: Sequence[str]) -> str:
    return ", ".join(reason.rstrip(".") for reason in reasons)


def encode(value: object) -> bytes:
    """A value as one line of JSON; paths become text."""
    return msgspec.json.encode(value, enc_hook=str)


def decode(data: bytes, kind: type[T]) -> T:
    """The value that ``encode`` gave. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=kind, dec_hook=_from_text)


def _from_text(kind: type, value: object) -> object:
    return kind(value)
