"""Class names: from a label file, else from the model's own metadata, else numbered. Never evaluated as code."""

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.errors import ModelError

MAX_METADATA_CHARS = 65536
ADVICE = "name a label file in the manifest"


def label_set(labels: Sequence[str]) -> str:
    """What tells sets of labels apart: the first 12 hex digits of the SHA-256 of the newline-joined labels."""
    return hashlib.sha256("\n".join(labels).encode()).hexdigest()[:12]


def read_label_file(path: Path, classes: int) -> tuple[str, ...]:
    """One name per line, UTF-8. Raises ModelError where the number of names is not the number of classes."""
    try:
        names = tuple(path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"Cannot read the label file {path} ({error}): it needs one UTF-8 name per line.") from error
    return checked_labels(names, classes, str(path))


def metadata_labels(metadata: Mapping[str, str], classes: int, where: str) -> tuple[str, ...]:
    """Names of the metadata entry ``names`` (JSON or a Python literal, list or numbered map), else ``class_<id>``."""
    text = metadata.get("names")
    if text is None:
        return tuple(f"class_{index}" for index in range(classes))
    if len(text) > MAX_METADATA_CHARS:
        raise ModelError(f"The class names in {where} take {len(text)} characters: {ADVICE}.")
    value = _parse(text)
    if isinstance(value, dict):
        value = [value.get(index, value.get(str(index))) for index in range(len(value))]
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ModelError(f"The class names in {where} cannot be read ({text[:40]!r}): {ADVICE}.")
    return checked_labels(tuple(value), classes, where)


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def checked_labels(names: tuple[str, ...], classes: int, where: str) -> tuple[str, ...]:
    """The names, one for each class and none empty. Raises ModelError."""
    if len(names) != classes:
        raise ModelError(
            f"{where} has {len(names)} class names, but the model has {classes} classes: correct one of them."
        )
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise ModelError(f"Class name {number} in {where} is empty: give it a name.")
    return names
