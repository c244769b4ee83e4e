"""What the model is expected to need for what waits, in the form that admission and scheduling ask for."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from typing import cast

from pipeline.geometry import Size
from pipeline.policies.batch_latency import BatchLatency
from pipeline.policies.schedule import Service

Kind = tuple[str, Size]


@dataclass(slots=True)
class Forecast:
    """Run times as measured, for batches of at most ``max_batch``."""

    latency: BatchLatency
    max_batch: int

    def service(self, free_s: float, now_s: float) -> Service:
        """The outlook at one moment, for a model that is free in ``free_s``; each figure is worked out once."""

        @cache
        def together_s(kind: Hashable, count: int) -> float:
            model, bucket = cast(Kind, kind)
            times = self.latency.times(model, bucket, now_s)
            full, rest = divmod(count, self.max_batch)
            full_s = times.typical_s(self.max_batch) or 0.0 if full else 0.0
            rest_s = times.typical_s(rest) or 0.0 if rest else 0.0
            return full * full_s + rest_s

        @cache
        def alone_s(kind: Hashable) -> float | None:
            model, bucket = cast(Kind, kind)
            return self.latency.times(model, bucket, now_s).p90_s(1)

        return Service(free_s, together_s, alone_s)

    def typical_s(self, kind: Kind, count: int, now_s: float) -> float:
        """The median of a run of so many; 0 while nothing is known."""
        return self.latency.times(*kind, now_s).typical_s(count) or 0.0
