"""How much a link carries, as a function of time: constant, in steps, with outages."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

Span = tuple[float, float]
"""From and until, in seconds; the end is outside."""


class Capacity(Protocol):
    """What a link could have carried since its time 0, in bytes: a curve that never falls, nor stays flat for good.

    Whatever is sent has a position on that curve and passes when the curve reaches it, so that one number is the whole
    state of a queue.
    """

    def carried_bytes(self, at_s: float) -> float:
        """The curve at a moment."""
        ...

    def reached_s(self, position_bytes: float) -> float:
        """The first moment at which the curve is so high."""
        ...

    def open_s(self, at_s: float) -> float:
        """The first moment, not before ``at_s``, at which something passes."""
        ...


class SteppedRate:
    """A rate that changes at given moments, and stays as it is after the last.

    ``steps``: (from_s, bytes_s), the first from 0 on, in the order of time; a rate of 0 is an outage. Raises
    ValueError.
    """

    def __init__(self, steps: Sequence[tuple[float, float]]) -> None:
        starts, rates = [start for start, _ in steps], [rate for _, rate in steps]
        if not steps or starts[0] != 0 or any(later <= earlier for earlier, later in pairwise(starts)):
            raise ValueError(f"steps of a rate begin at 0 s and follow each other, not {starts}")
        if min(rates) < 0 or rates[-1] <= 0:
            raise ValueError(f"rates are not below 0 and the last one is above it, not {rates} bytes per second")
        self._starts, self._rates = starts, rates
        self._before = [0.0]
        for (start, rate), (end, _) in pairwise(steps):
            self._before.append(self._before[-1] + rate * (end - start))

    def carried_bytes(self, at_s: float) -> float:
        step = self._step(at_s)
        return self._before[step] + self._rates[step] * max(0.0, at_s - self._starts[step])

    def reached_s(self, position_bytes: float) -> float:
        # Of the steps that end at this height the first: those after it are outages.
        step = bisect_left(self._before, position_bytes) - 1
        if step < 0:
            return 0.0
        return self._starts[step] + (position_bytes - self._before[step]) / self._rates[step]

    def open_s(self, at_s: float) -> float:
        step = self._step(at_s)
        while self._rates[step] == 0:
            step += 1
            at_s = self._starts[step]
        return at_s

    def _step(self, at_s: float) -> int:
        return max(0, bisect_right(self._starts, at_s) - 1)


def constant(bytes_s: float) -> SteppedRate:
    """The same rate always. Raises ValueError where it is not above 0."""
    return SteppedRate([(0.0, bytes_s)])


def interrupted(steps: Sequence[tuple[float, float]], outages: Sequence[Span]) -> SteppedRate:
    """Steps as of ``SteppedRate``, with nothing at all during the outages. Raises ValueError."""
    if any(start < 0 or end <= start for start, end in outages):
        raise ValueError(f"an outage ends after it begins, and begins at 0 s or later, not {list(outages)}")
    plain = SteppedRate(steps)
    moments = sorted({start for start, _ in steps} | {moment for outage in outages for moment in outage})
    rates = [
        0.0 if any(start <= moment < end for start, end in outages) else steps[plain._step(moment)][1]  # noqa: SLF001 - of this module
        for moment in moments
    ]
    return SteppedRate(list(zip(moments, rates, strict=True)))
