"""Every batch size run before the worker calls itself ready, so that no request pays for being the first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pipeline.detectors.base import Detector
from pipeline.detectors.session import ORT_ERRORS
from pipeline.errors import ModelError
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.timing import Clock

GREY = 114
ROUNDS = 3
"""Every size is measured so often, in rounds, because one slow run would tell of a gain, or of none, for minutes."""
LONG_S = 2.0
"""No other round is begun after so long: a model that is slow to warm up is less disturbed as well."""
EACH_SIZE_UP_TO = 32
"""Larger batches are warmed by doubling: what lies between costs more to try than the first request loses."""


class Warmable(Detector, Protocol):
    """A detector that says what it makes of a picture's size, and how many pictures it takes in one run."""

    @property
    def batch_size(self) -> int | None: ...

    def input_of(self, picture: Size) -> Size: ...


@dataclass(frozen=True, slots=True)
class RunTime:
    """How long one batch of a model took at one input size, in seconds."""

    model: str
    bucket: Size
    batch: int
    run_s: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known of the models before the first request: the input that each makes of a picture's size, and how long
    its runs took.
    """

    input_of: Mapping[str, Callable[[Size], Size]] = field(default_factory=dict)
    run_times: Sequence[RunTime] = ()


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Batches of up to ``max_batch`` pictures of one size that are to be run."""

    picture: Size
    max_batch: int


def warm_ups(largest_px: tuple[int, int], max_batch: int, *, native: bool) -> list[WarmUp]:
    """What to run for a model whose input is at most ``largest_px`` (height, width).

    A model whose pictures keep their size (``native``) runs its batches at half the sides, which is more like most
    mosaics, and its largest input alone: a full batch of that would take memory for good that a CPU never needs.
    """
    height, width = largest_px
    if not native:
        return [WarmUp(Size(width, height), max_batch)]
    return [WarmUp(Size(width, height), 1), WarmUp(Size(max(1, width // 2), max(1, height // 2)), max_batch)]


def warm_up(detector: Warmable, plan: Sequence[WarmUp], clock: Clock) -> list[RunTime]:
    """Run every batch size of a plan, up to three times, and say how long each run took. Blocks.

    The largest batch goes first, and is run once more before it is measured: its first run pays for memory that all the
    others then find. Raises ModelError where it fails on as many as it may be asked for at once.
    """
    times: list[RunTime] = []
    for each in plan:
        began_s = clock.now_s()
        picture: Image = np.full((each.picture.height, each.picture.width, 3), GREY, np.uint8)
        batches = batch_sizes(min(each.max_batch, detector.batch_size or each.max_batch))
        _run(detector, picture, batches[0])
        for turn in range(ROUNDS):
            if turn == 0 or clock.now_s() - began_s < LONG_S:
                times += [_measured(detector, picture, batch, clock) for batch in batches]
    return times


def batch_sizes(most: int) -> list[int]:
    """The batch sizes that are warmed, largest first."""
    sizes = {most, *range(1, min(most, EACH_SIZE_UP_TO) + 1)}
    doubled = 2 * EACH_SIZE_UP_TO
    while doubled < most:
        sizes.add(doubled)
        doubled *= 2
    return sorted(sizes, reverse=True)


def _measured(detector: Warmable, picture: Image, batch: int, clock: Clock) -> RunTime:
    started_s = clock.now_s()
    _run(detector, picture, batch)
    size = Size(picture.shape[1], picture.shape[0])
    return RunTime(detector.name, detector.input_of(size), batch, clock.now_s() - started_s)


def _run(detector: Warmable, picture: Image, batch: int) -> None:
    try:
        detector.detect([picture] * batch, 0.5)
    except ORT_ERRORS as error:
        height, width = picture.shape[:2]
        told = " ".join(str(error).split())[-300:].rstrip(".") or type(error).__name__
        raise ModelError(
            f"Model {detector.name!r} fails on {batch} pictures of {width}x{height} at once ({told}): "
            "lower worker.max_batch, or have whatever runs it take so many."
        ) from error
