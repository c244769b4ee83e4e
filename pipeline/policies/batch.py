"""When a batch closes: decided from the deadlines and from measured run times."""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Protocol

from pipeline.policies.batch_latency import LEAST_GAIN
from pipeline.policies.batch_plan import in_time


class BatchTimes(Protocol):
    """Predicted run times of one model at one picture size, by batch size; None while nothing is known."""

    def typical_s(self, batch: int) -> float | None:
        """The median."""
        ...

    def p95_s(self, batch: int) -> float | None:
        """The 95th percentile."""
        ...

    def gain(self, batch: int) -> float | None:
        """The share of time per picture that a measured batch saves against one at a time; 0 for a batch of one."""
        ...


class BatchReason(StrEnum):
    """Why a batch was closed."""

    FULL = "full"
    DEADLINE = "deadline"  # one more could not be waited for
    WINDOW = "window"  # the oldest has waited as long as any may
    IDLE = "idle"  # the model is free and no company is expected in time to be worth the wait
    NO_GAIN = "no_gain"  # company is there or coming, and running together saves nothing


@dataclass(frozen=True, slots=True)
class BatchView:
    """What waits while the model is idle: requests of one model and one size bucket, most urgent first.

    ``next_arrival_s`` is when the next of the same kind is expected, None when unknown. ``others_wait``: requests of
    another kind are ready too. ``kind`` names model and bucket, for policies that learn per kind.
    """

    now_s: float
    deadlines_s: tuple[float, ...]
    oldest_arrival_s: float
    next_arrival_s: float | None
    others_wait: bool
    max_batch: int
    times: BatchTimes
    kind: Hashable = None


@dataclass(frozen=True, slots=True)
class Fire:
    """Run the ``size`` most urgent requests now, of those that are due at ``due_from_s`` or later."""

    size: int
    reason: BatchReason
    due_from_s: float = -math.inf


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at ``until_s``, or when something arrives."""

    until_s: float


class BatchPolicy(Protocol):
    """Decides, while the model is idle and at least one request waits, whether to run and how many."""

    def decide(self, view: BatchView) -> Fire | Wait: ...

    def ran(self, kind: Hashable, size: int, run_s: float, budget_s: float) -> None:
        """A batch of ``size`` ran for ``run_s``; ``budget_s`` is the least that any of it had from its arrival."""
        del kind, size, run_s, budget_s  # most learn nothing from it


class NoBatching(BatchPolicy):
    """One at a time, at once."""

    def decide(self, view: BatchView) -> Fire | Wait:
        del view
        return Fire(1, BatchReason.IDLE)


@dataclass(frozen=True, slots=True)
class FixedWindow(BatchPolicy):
    """Waits until the batch is full or its oldest request has waited ``window_s``; the common baseline.

    As Triton's dynamic batcher does with ``max_queue_delay_microseconds``; a window of 0 is its default.
    """

    window_s: float = 0.005

    def decide(self, view: BatchView) -> Fire | Wait:
        waiting = len(view.deadlines_s)
        if waiting >= view.max_batch:
            return Fire(view.max_batch, BatchReason.FULL)
        until_s = view.oldest_arrival_s + self.window_s
        return Wait(until_s) if view.now_s < until_s else Fire(waiting, BatchReason.WINDOW)


@dataclass(slots=True)
class Aimd(BatchPolicy):
    """Takes what waits, at once, up to a size that is found by additive increase and multiplicative decrease.

    As Clipper (Crankshaw et al., NSDI 2017, section 4.3.1): one more after each full batch that was within its budget,
    a tenth less after one that was not. It knows neither deadlines nor run times. One limit per kind, bounded in kinds.
    """

    back_off: float = 0.9
    kinds: int = 256
    _limits: OrderedDict[Hashable, float] = field(default_factory=OrderedDict)

    def decide(self, view: BatchView) -> Fire | Wait:
        limit = min(int(self._limits.get(view.kind, 1.0)), view.max_batch)
        size = min(len(view.deadlines_s), limit)
        return Fire(size, BatchReason.FULL if size == limit else BatchReason.IDLE)

    def ran(self, kind: Hashable, size: int, run_s: float, budget_s: float) -> None:
        limit = self._limits.get(kind, 1.0)
        if run_s > budget_s:
            limit = max(1.0, limit * self.back_off)
        elif size >= int(limit):
            limit = size + 1.0  # counts from what was run: the bound on batches may be below the limit
        self._limits[kind] = limit
        self._limits.move_to_end(kind)
        if len(self._limits) > self.kinds:
            self._limits.popitem(last=False)


@dataclass(frozen=True, slots=True)
class DeadlineBatching(BatchPolicy):
    """Batches as far as it is measured to gain and the most urgent deadline allows; waits only where that pays.

    With ``n`` waiting and the next expected in ``g`` seconds, running now ends both at ``t(n) + t(1)``, waiting at
    ``g + t(n+1)``; so company is worth a wait below ``t(n) + t(1) - t(n+1)``. Where batches gain nothing that is
    never, and the batch is one. Batch sizes never run are tried, doubling, when their pessimistic time still fits.
    Who would keep a batch small by being nearly late is left out (and hopeless then) where looking ahead over all that
    wait finds no fewer in time without it, as Nexus drops early (Shen et al., SOSP 2019, section 4.3): a small batch
    for it costs others behind it.
    Nobody waits for company once the oldest has waited ``window_s``, however many of it come one by one.
    """

    window_s: float = math.inf
    least_gain: float = LEAST_GAIN

    def decide(self, view: BatchView) -> Fire | Wait:
        waiting = min(len(view.deadlines_s), view.max_batch)
        size = self._best_size(view, waiting)
        if size < waiting:
            larger = self._without_the_late(view, size, waiting)
            if larger is not None:
                return larger
        if size == view.max_batch:
            return Fire(size, BatchReason.FULL)
        if size < waiting:
            return Fire(size, self._why_not_larger(view, size + 1))
        return self._company(view, size)

    def _best_size(self, view: BatchView, waiting: int) -> int:
        best = proven = 1
        for size in range(2, waiting + 1):
            if not _fits(view, size):
                break
            gain = view.times.gain(size)
            if gain is None and size <= 2 * proven:
                best = size
            elif gain is not None and gain >= self.least_gain:
                best = proven = size
        return best

    def _without_the_late(self, view: BatchView, size: int, waiting: int) -> Fire | None:
        """A larger batch of those that can bear it, where it gains and no fewer of all that wait are in time so."""
        run_s = _pessimistic(view.times)
        best, most_met = None, in_time(view.deadlines_s, size, view.now_s, view.max_batch, run_s)
        for larger in range(size + 1, waiting + 1):
            gain = view.times.gain(larger)
            if run_s(larger) <= 0 or gain is None or gain < self.least_gain:
                continue
            due_from_s = view.now_s + run_s(larger)
            if view.deadlines_s[-larger] < due_from_s:
                break
            met = in_time(view.deadlines_s, larger, view.now_s, view.max_batch, run_s)
            if met >= most_met:  # of equals the largest: it leaves most time for what is still to come
                reason = BatchReason.FULL if larger == view.max_batch else BatchReason.DEADLINE
                best, most_met = Fire(larger, reason, due_from_s), met
        return best

    def _why_not_larger(self, view: BatchView, larger: int) -> BatchReason:
        if not _fits(view, larger):
            return BatchReason.DEADLINE
        return BatchReason.IDLE if view.times.gain(larger) is None else BatchReason.NO_GAIN

    def _company(self, view: BatchView, size: int) -> Fire | Wait:
        times, larger = view.times, size + 1
        gain = times.gain(larger)
        if gain is not None and gain < self.least_gain:
            return Fire(size, BatchReason.NO_GAIN)
        now_run_s, single_s, larger_s = times.typical_s(size), times.typical_s(1), times.typical_s(larger)
        if gain is None or now_run_s is None or single_s is None or larger_s is None:
            return Fire(size, BatchReason.IDLE)
        if view.others_wait or view.next_arrival_s is None or view.next_arrival_s <= view.now_s:
            return Fire(size, BatchReason.IDLE)
        if view.next_arrival_s - view.now_s >= now_run_s + single_s - larger_s:
            return Fire(size, BatchReason.IDLE)
        latest_start_s = view.deadlines_s[0] - (times.p95_s(larger) or larger_s)
        if view.next_arrival_s > latest_start_s:
            return Fire(size, BatchReason.DEADLINE)
        if view.next_arrival_s > view.oldest_arrival_s + self.window_s:
            return Fire(size, BatchReason.WINDOW)
        return Wait(view.next_arrival_s)


def _pessimistic(times: BatchTimes) -> Callable[[int], float]:
    """The 95th percentile by batch size, looked up once each; 0 where nothing is known."""
    return cache(lambda batch: times.p95_s(batch) or 0.0)


def _fits(view: BatchView, size: int) -> bool:
    run_s = view.times.p95_s(size)
    return run_s is None or view.now_s + run_s <= view.deadlines_s[0]


BATCH_KINDS: Mapping[str, Callable[[float], BatchPolicy]] = {
    "none": lambda _window_s: NoBatching(),
    "fixed_window": FixedWindow,
    "aimd": lambda _window_s: Aimd(),
    "deadline": DeadlineBatching,
}
"""Batch policies by name; each is made from the window in seconds, the longest that anybody waits for company."""
