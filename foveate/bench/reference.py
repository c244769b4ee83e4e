"""What a model sees on every frame of a clip, computed once and kept in the user's cache folder.

The dense answers of the larger model are the reference where a clip has no true boxes. A model's answer to a picture
never changes, so what is kept is what would be computed again; ``FOVEATE_CACHE`` names another folder.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from foveate.models.clips import content_hash, sampled_frames
from pipeline.detections import Detections
from pipeline.detectors.loading import load_detector
from pipeline.frames import Image

SMALL = ("nanodet-g-int8", (192, 256))
"""The default small model and its input (height, width) in pixels."""
LARGE = ("nanodet-g", (416, 576))
"""The default larger model as it looks at a whole frame."""
LEAST_SCORE = 0.1
"""Detections below it are not kept."""
LAYOUT = 1
"""Of the files; a new one makes the old ones unused."""

Say = Callable[[str], None]


def cache_folder() -> Path:
    """Where dense answers are kept."""
    named = os.environ.get("FOVEATE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else (Path(base) if base else Path.home() / ".cache") / "foveate"


def frames(clip: Path) -> Iterator[Image]:
    """Every frame of a clip, (height, width, 3) uint8 BGR, in order. Raises SourceError where there is none."""
    return (image for _, image in sampled_frames(clip, 1))


def detections(clip: Path, model: tuple[str, tuple[int, int]], say: Say = lambda _: None) -> list[Detections]:
    """The model's detections on every frame, in frame pixels, scores of at least ``LEAST_SCORE``, best first.

    ``model`` is its name in the manifest and its input (height, width). Computed with one thread where they are not
    in the cache. Raises SourceError and ModelError.
    """
    name, input_size = model
    detector = load_detector(name, input_size=input_size, threads=1)
    about = f"{LAYOUT}/{content_hash(clip)}/{name}@{detector.version}/{input_size}/{LEAST_SCORE}"
    file = cache_folder() / "dense" / f"{hashlib.sha256(about.encode()).hexdigest()[:24]}.npz"
    kept = _read(file)
    if kept is not None:
        return kept
    say(f"{name} on every frame of {clip.name}, kept for later runs")
    found = [detector.detect([image], LEAST_SCORE)[0] for image in frames(clip)]
    _write(file, found)
    return found


def _read(file: Path) -> list[Detections] | None:
    try:
        with np.load(file, allow_pickle=False) as kept:
            arrays: dict[str, Any] = {name: kept[name] for name in ("count", "xyxy", "score", "label")}
    except (OSError, ValueError, KeyError, BadZipFile):  # absent, or not what was written
        return None
    ends = np.cumsum(arrays["count"])
    parts = zip(ends - arrays["count"], ends, strict=True)
    return [Detections.of(*(arrays[name][a:b] for name in ("xyxy", "score", "label"))) for a, b in parts]


def _write(file: Path, found: list[Detections]) -> None:
    """Keep the answers; a cache that cannot be written is done without."""
    whole = Detections.concat(found)
    partial = file.with_name(f"{file.stem}.{os.getpid()}.npz")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        count = np.array([len(part) for part in found])
        np.savez_compressed(partial, count=count, xyxy=whole.xyxy, score=whole.score, label=whole.label)
        partial.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
