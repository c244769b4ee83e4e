"""What the model is expected to need for what waits, in the form that admission and scheduling ask for."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import cast

from pipeline.geometry import Size
from pipeline.policies.batch_latency import RECENT_S, BatchLatency, MeasuredTimes
from pipeline.policies.schedule import Service

HOLDS_S = 0.1
"""So long figures once worked out are used again, unless a run has ended meanwhile."""
_Figures = tuple[Callable[[Hashable, int], float], Callable[[Hashable], float | None]]


@dataclass(slots=True)
class Forecast:
    """Run times as measured, by model, size bucket and batch of at most ``max_batch``."""

    max_batch: int
    latency: BatchLatency = field(default_factory=BatchLatency)
    _figures: _Figures | None = None
    _at_s: float = 0.0

    def observe(self, kind: tuple[str, Size], batch: int, run_s: float, now_s: float) -> None:
        """A batch of a kind ran for ``run_s`` seconds and ended at ``now_s``."""
        self.latency.observe(*kind, batch, run_s, now_s)
        self._figures = None

    def warmed(self, kind: tuple[str, Size], batch: int, run_s: float, now_s: float) -> None:
        """A batch took so long before the first request. It tells what running together gains, and promises nothing:
        a machine that starts up is busy with more than this.
        """
        self.latency.observe(*kind, batch, run_s, now_s - 2 * RECENT_S)
        self._figures = None

    def service(self, free_s: float, now_s: float) -> Service:
        """The outlook at one moment, for a model that is free in ``free_s``; kinds are (model, width, height)."""
        if self._figures is None or now_s - self._at_s > HOLDS_S:
            self._figures, self._at_s = self._worked_out(now_s), now_s
        return Service(free_s, *self._figures)

    def _worked_out(self, now_s: float) -> _Figures:
        @cache
        def times(kind: Hashable) -> MeasuredTimes:
            model, width, height = cast(tuple[str, int, int], kind)
            return self.latency.times(model, Size(width, height), now_s)

        @cache
        def together_s(kind: Hashable, count: int) -> float:
            full, rest = divmod(count, self.max_batch)
            full_s = times(kind).typical_s(self.max_batch) or 0.0 if full else 0.0
            rest_s = times(kind).typical_s(rest) or 0.0 if rest else 0.0
            return full * full_s + rest_s

        @cache
        def alone_s(kind: Hashable) -> float | None:
            return times(kind).p90_s(1)

        return together_s, alone_s
