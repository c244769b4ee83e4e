"""Percentiles and rates over the last seconds, in bounded memory."""

import math
from collections import deque
from collections.abc import Iterator, Sequence

from pipeline.metrics.histogram import LogHistogram

_LEAST_COVERED_S = 1.0
"""A rate is never taken over less than this (or the span, if shorter), so that a first event is not a huge rate."""


class SlidingWindow:
    """The values of the last ``span_s`` seconds, at most ``capacity`` of them (the newest win).

    Times are monotonic seconds and are expected to rise; a value that comes a little late leaves a little late.
    """

    def __init__(self, span_s: float, capacity: int) -> None:
        if not span_s > 0 or capacity < 1:
            raise ValueError(f"span {span_s} s and capacity {capacity}: both must be positive")
        self._span_s = span_s
        self._items: deque[tuple[float, float]] = deque(maxlen=capacity)
        self._capacity = capacity
        self._whole_since_s: float | None = None

    def add(self, value: float, now_s: float) -> None:
        """Take in one value. Raises ValueError on a value that is not finite."""
        if not math.isfinite(value):
            raise ValueError(f"a window holds finite values, not {value}")
        self._evict(now_s)
        if self._whole_since_s is None:
            self._whole_since_s = now_s
        elif len(self._items) == self._capacity:
            self._whole_since_s = self._items[0][0]
        self._items.append((now_s, value))

    def count(self, now_s: float) -> int:
        """The number of values held."""
        self._evict(now_s)
        return len(self._items)

    def rate(self, now_s: float) -> float:
        """Values per second, over the part of the span that the window has seen whole."""
        return self.count(now_s) / _covered_s(self._span_s, self._whole_since_s, now_s)

    def percentiles(self, now_s: float, percents: Sequence[float]) -> list[float | None]:
        """Percentiles by nearest rank: the smallest held value that at least p per cent do not exceed; None if empty.

        Always a value that occurred, never an interpolation. Raises ValueError for p outside (0, 100].
        """
        if not all(0 < p <= 100 for p in percents):
            raise ValueError(f"percentiles {list(percents)}: each must be above 0 and at most 100")
        self._evict(now_s)
        ordered = sorted(value for _, value in self._items)
        if not ordered:
            return [None] * len(percents)
        return [ordered[math.ceil(p * len(ordered) / 100) - 1] for p in percents]

    def _evict(self, now_s: float) -> None:
        items, oldest_s = self._items, now_s - self._span_s
        while items and items[0][0] < oldest_s:
            items.popleft()


class HistogramWindow:
    """The values of the last ``span_s`` seconds as one histogram per ``slot_s``: small, and mergeable.

    Windows of several cameras or agents are joined by merging what ``recent`` gives of each: that is the histogram that
    one window over all their values would give, whatever clock each of them goes by.
    """

    def __init__(self, span_s: float, slot_s: float = 1.0) -> None:
        if not span_s >= slot_s > 0:
            raise ValueError(f"span {span_s} s and slots of {slot_s} s: the slots must be positive and fit the span")
        self._slot_s = slot_s
        self._slots: deque[tuple[int, LogHistogram]] = deque(maxlen=math.ceil(span_s / slot_s))

    def add(self, value: float, now_s: float) -> None:
        """Take in one value; one that comes late counts in the newest slot. Raises ValueError if it is not finite."""
        slot = int(now_s // self._slot_s)
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, LogHistogram()))
        self._slots[-1][1].add(value)

    def slots(self, now_s: float, since_s: float = -math.inf) -> Iterator[tuple[float, LogHistogram]]:
        """The slots of the span that begin at ``since_s`` or later, oldest first, with the moment each begins."""
        oldest = int(now_s // self._slot_s) - (self._slots.maxlen or 0) + 1
        for slot, histogram in self._slots:
            if slot >= oldest and slot * self._slot_s >= since_s:
                yield slot * self._slot_s, histogram

    def recent(self, now_s: float, since_s: float = -math.inf) -> LogHistogram:
        """One histogram of the values in those slots."""
        whole = LogHistogram()
        for _, histogram in self.slots(now_s, since_s):
            whole.merge(histogram)
        return whole


class Rate:
    """Events and bytes per second over the last ``span_s`` seconds, counted in ``slots`` equal steps of time."""

    def __init__(self, span_s: float, slots: int = 20) -> None:
        if not span_s > 0 or slots < 2:
            raise ValueError(f"span {span_s} s and {slots} slots: the span must be positive, the slots at least 2")
        self._span_s = span_s
        self._slots = slots
        self._slot_s = span_s / slots
        self._counts: deque[tuple[int, int, int]] = deque(maxlen=slots)
        self._first_s: float | None = None

    def add(self, now_s: float, amount_bytes: int = 0, events: int = 1) -> None:
        """Count events and their bytes; what comes late is counted in the newest slot."""
        if self._first_s is None:
            self._first_s = now_s
        slot = int(now_s // self._slot_s)
        if self._counts and self._counts[-1][0] >= slot:
            slot, events_before, bytes_before = self._counts.pop()
            events, amount_bytes = events + events_before, amount_bytes + bytes_before
        self._counts.append((slot, events, amount_bytes))

    def events_per_s(self, now_s: float) -> float:
        """Events per second."""
        return sum(events for _, events, _ in self._recent(now_s)) / self._covered_s(now_s)

    def bytes_per_s(self, now_s: float) -> float:
        """Bytes per second."""
        return sum(amount for _, _, amount in self._recent(now_s)) / self._covered_s(now_s)

    def _first_slot(self, now_s: float) -> int:
        return int(now_s // self._slot_s) - self._slots + 1

    def _recent(self, now_s: float) -> list[tuple[int, int, int]]:
        first = self._first_slot(now_s)
        return [count for count in self._counts if count[0] >= first]

    def _covered_s(self, now_s: float) -> float:
        opened_s = self._first_slot(now_s) * self._slot_s
        since_s = opened_s if self._first_s is None else max(opened_s, self._first_s)
        return _covered_s(self._span_s, since_s, now_s)


def _covered_s(span_s: float, since_s: float | None, now_s: float) -> float:
    seen_s = 0.0 if since_s is None else now_s - since_s
    return min(span_s, max(seen_s, _LEAST_COVERED_S))
