"""From a released file to a model that is ready to look."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipeline.detectors.base import Detector
from pipeline.detectors.loading import load_file
from pipeline.errors import ModelError
from pipeline.releases.manifest import Manifest

WARM_LOOKS = 3
"""The first look of a session takes longest: it is not a camera's."""

Load = Callable[[Path, Manifest], Detector]
"""Loads, proves and warms the file of a release; blocks. Raises ModelError in one sentence."""


def loader(threads: int) -> Load:
    """The ``Load`` of real models, with so many inference threads."""

    def load(path: Path, manifest: Manifest) -> Detector:
        try:
            detector = load_file(
                path, manifest.entry, labels=manifest.labels, input_size=manifest.input_size, threads=threads
            )
            grey = np.full((*manifest.input_size, 3), 114, np.uint8)
            for _ in range(WARM_LOOKS):
                detector.detect([grey], min_score=0.5)
        except ModelError:
            raise
        except Exception as error:  # a released file may fail in any way, and costs nothing but itself
            raise ModelError(f"{manifest.title} cannot be used: {error}") from error
        return detector

    return load
