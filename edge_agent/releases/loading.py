"""From a released file to a model that is ready to look."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from edge_agent.pools import Runner
from pipeline.detectors.base import Detector
from pipeline.detectors.loading import load_file
from pipeline.errors import ModelError
from pipeline.releases.manifest import Manifest

PROOF_LIMIT_S = 60.0
WARM_LOOKS = 3
"""The first look of a session takes longest: it is not a camera's."""

Load = Callable[[Path, Manifest], Detector]
"""Loads, proves and warms the file of a release; blocks. Raises ModelError in one sentence."""


async def proven(load: Load, path: Path, manifest: Manifest, runner: Runner) -> Detector:
    """Load a release's file on ``runner``, whose threads nobody has to wait for. Raises ModelError, also where it
    hangs.
    """
    try:
        async with asyncio.timeout(PROOF_LIMIT_S):
            return await runner.run(partial(load, path, manifest))
    except TimeoutError:
        raise ModelError(
            f"{manifest.title} was not ready within {PROOF_LIMIT_S:.0f} s: release one that is lighter."
        ) from None


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
