"""Measured run times and arrival gaps: what a batch policy decides from. Bounded, and read no clock."""

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from pipeline.geometry import Size
from pipeline.policies.latency import DurationEstimate

RECENT_S = 10.0
"""A run time older than this no longer refuses anybody: the next request measures it again."""
GAIN_MEMORY_S = 120.0
"""What batching gains is a property of the machine and is remembered longer."""
LEAST_GAIN = 0.05
LEAST_RUNS = 3
TRIED_AGAIN_S = 30.0
"""That a batch gains less than ``LEAST_GAIN`` is believed from so many runs on, and so long. What is not run is not
measured either: one bad moment of a shared machine would else speak against batches for as long as it is remembered.
"""


@dataclass(slots=True)
class _Runs:
    """Run times of one model, bucket and batch size, newest last."""

    recent_s: deque[float]
    last_at_s: float = -math.inf
    median_s: float = 0.0
    p90_s: float = 0.0
    p95_s: float = 0.0

    def add(self, run_s: float, now_s: float) -> None:
        if now_s - self.last_at_s > RECENT_S:
            self.recent_s.clear()  # a spike of long ago must not outlive the pause
        self.recent_s.append(run_s)
        self.last_at_s = now_s
        ranked = sorted(self.recent_s)
        self.median_s = ranked[(len(ranked) - 1) // 2]
        self.p90_s = ranked[int(0.9 * (len(ranked) - 1))]  # rounds down: of few runs, one slow one is left out
        self.p95_s = ranked[math.ceil(0.95 * len(ranked)) - 1]


@dataclass(frozen=True, slots=True)
class _Key:
    model: str
    bucket: Size
    batch: int


@dataclass(slots=True)
class BatchLatency:
    """Run times measured per model, size bucket and batch size; bounded in keys, in samples and in age.

    What was never run is predicted from the nearest measurement: in proportion to the pixels, and in proportion to
    the batch (as if running together gained nothing).
    """

    samples: int = 64
    keys: int = 256
    _runs: OrderedDict[_Key, _Runs] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._runs)

    def observe(self, model: str, bucket: Size, batch: int, run_s: float, now_s: float) -> None:
        """A batch ran for ``run_s`` seconds and ended at ``now_s``."""
        key = _Key(model, bucket, batch)
        if key not in self._runs:
            self._runs[key] = _Runs(deque(maxlen=self.samples))
        self._runs[key].add(run_s, now_s)
        self._runs.move_to_end(key)
        if len(self._runs) > self.keys:
            self._runs.popitem(last=False)

    def times(self, model: str, bucket: Size, now_s: float) -> "MeasuredTimes":
        """The predictions for one model at one size, as known at ``now_s``."""
        return MeasuredTimes(self, model, bucket, now_s)

    def p95_of_newest_s(self, model: str) -> float | None:
        """The 95th percentile of the newest measured kind of run, for people and announcements."""
        found = (runs.p95_s for key, runs in reversed(self._runs.items()) if key.model == model)
        return next(found, None)

    def nearest(self, wanted: _Key, now_s: float) -> tuple[_Runs, float] | None:
        """The measurement that predicts ``wanted`` best and the factor to it."""
        exact = self._runs.get(wanted)
        if exact is not None and now_s - exact.last_at_s <= RECENT_S:
            return exact, 1.0
        best: tuple[tuple[bool, int, float], _Runs, float] | None = None
        for key, runs in self._runs.items():
            if key.model != wanted.model or now_s - runs.last_at_s > RECENT_S:
                continue
            pixels = _pixels(wanted.bucket) / _pixels(key.bucket)
            distance = (key.batch > wanted.batch, abs(key.batch - wanted.batch), abs(math.log(pixels)))
            if best is None or distance < best[0]:
                best = distance, runs, pixels * max(wanted.batch / key.batch, 1.0)
        return None if best is None else best[1:]

    def gain(self, model: str, bucket: Size, batch: int, now_s: float) -> float | None:
        """The share of time per picture that ``batch`` saves, at this size or else at any other measured one; None also
        where little was seen of a batch that seems to save nothing, or long ago.
        """
        if batch == 1:
            return 0.0
        buckets = [key.bucket for key in reversed(self._runs) if key.model == model and key.batch == batch]
        for size in sorted(buckets, key=lambda other: other != bucket):
            single, together = (self._runs.get(_Key(model, size, n)) for n in (1, batch))
            if single is None or together is None or now_s - together.last_at_s > GAIN_MEMORY_S:
                continue
            gain = 1 - together.median_s / (batch * single.median_s) if single.median_s > 0 else 0.0
            believed = len(together.recent_s) >= LEAST_RUNS and now_s - together.last_at_s <= TRIED_AGAIN_S
            if gain >= LEAST_GAIN or believed:
                return gain
        return None


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """``BatchTimes`` read from a latency table at one moment."""

    _table: BatchLatency
    _model: str
    _bucket: Size
    _now_s: float

    def typical_s(self, batch: int) -> float | None:
        found = self._table.nearest(_Key(self._model, self._bucket, batch), self._now_s)
        return None if found is None else found[0].median_s * found[1]

    def p90_s(self, batch: int) -> float | None:
        """The 90th percentile, by which promises are made.

        By the median every other promise of a busy queue is broken; by the 95th, one slow run in twenty refuses what
        could have been done.
        """
        found = self._table.nearest(_Key(self._model, self._bucket, batch), self._now_s)
        return None if found is None else found[0].p90_s * found[1]

    def p95_s(self, batch: int) -> float | None:
        found = self._table.nearest(_Key(self._model, self._bucket, batch), self._now_s)
        return None if found is None else found[0].p95_s * found[1]

    def gain(self, batch: int) -> float | None:
        return self._table.gain(self._model, self._bucket, batch, self._now_s)


def _pixels(size: Size) -> int:
    return max(size.width * size.height, 1)


@dataclass(slots=True)
class ArrivalGaps:
    """When the next request of a kind is to be expected, from the gaps before; bounded in kinds."""

    kinds: int = 256
    _known: OrderedDict[tuple[str, Size], tuple[float, DurationEstimate]] = field(default_factory=OrderedDict)

    def observe(self, model: str, bucket: Size, now_s: float) -> None:
        """A request arrived at ``now_s``."""
        kind = model, bucket
        gap = DurationEstimate()
        if kind in self._known:
            last_s, gap = self._known[kind]
            gap = gap.add((now_s - last_s) * 1e3)
        self._known[kind] = now_s, gap
        self._known.move_to_end(kind)
        if len(self._known) > self.kinds:
            self._known.popitem(last=False)

    def next_s(self, model: str, bucket: Size) -> float | None:
        """When the next one is expected at the latest; None before two have arrived."""
        last_s, gap = self._known.get((model, bucket), (0.0, DurationEstimate()))
        gap_ms = gap.tail_ms(deviations=2.0)
        return None if gap_ms is None else last_s + gap_ms / 1e3
