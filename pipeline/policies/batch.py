"""When a batch closes: decided from the deadlines and from measured run times."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


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
    WINDOW = "window"  # the fixed window is over
    IDLE = "idle"  # the model is free and no company is expected in time to be worth the wait
    NO_GAIN = "no_gain"  # company is there or coming, and running together saves nothing


@dataclass(frozen=True, slots=True)
class BatchView:
    """What waits while the model is idle: requests of one model and one size bucket, most urgent first.

    ``next_arrival_s`` is when the next of the same kind is expected, None when unknown. ``others_wait``: requests of
    another kind are ready too.
    """

    now_s: float
    deadlines_s: tuple[float, ...]
    oldest_arrival_s: float
    next_arrival_s: float | None
    others_wait: bool
    max_batch: int
    times: BatchTimes


@dataclass(frozen=True, slots=True)
class Fire:
    """Run the ``size`` most urgent requests now."""

    size: int
    reason: BatchReason


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at ``until_s``, or when something arrives."""

    until_s: float


class BatchPolicy(Protocol):
    """Decides, while the model is idle and at least one request waits, whether to run and how many."""

    def decide(self, view: BatchView) -> Fire | Wait: ...


class NoBatching:
    """One at a time, at once."""

    def decide(self, view: BatchView) -> Fire | Wait:
        del view
        return Fire(1, BatchReason.IDLE)


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """Waits until the batch is full or its oldest request has waited ``window_s``; the common baseline."""

    window_s: float = 0.005

    def decide(self, view: BatchView) -> Fire | Wait:
        waiting = len(view.deadlines_s)
        if waiting >= view.max_batch:
            return Fire(view.max_batch, BatchReason.FULL)
        until_s = view.oldest_arrival_s + self.window_s
        return Wait(until_s) if view.now_s < until_s else Fire(waiting, BatchReason.WINDOW)


@dataclass(frozen=True, slots=True)
class DeadlineBatching:
    """Batches as far as it is measured to gain and the most urgent deadline allows; waits only where that pays.

    With ``n`` waiting and the next expected in ``g`` seconds, running now ends both at ``t(n) + t(1)``, waiting at
    ``g + t(n+1)``; so company is worth a wait below ``t(n) + t(1) - t(n+1)``. Where batches gain nothing that is
    never, and the batch is one. Batch sizes never run are tried, doubling, when their pessimistic time still fits.
    """

    least_gain: float = 0.05

    def decide(self, view: BatchView) -> Fire | Wait:
        waiting = min(len(view.deadlines_s), view.max_batch)
        size = self._best_size(view, waiting)
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
        return Wait(view.next_arrival_s)


def _fits(view: BatchView, size: int) -> bool:
    run_s = view.times.p95_s(size)
    return run_s is None or view.now_s + run_s <= view.deadlines_s[0]


BATCH_KINDS: Mapping[str, Callable[[float], BatchPolicy]] = {
    "none": lambda _window_s: NoBatching(),
    "fixed_window": FixedWindow,
    "deadline": lambda _window_s: DeadlineBatching(),
}
"""Batch policies by name; each is made from the window in seconds, which only ``fixed_window`` uses."""
