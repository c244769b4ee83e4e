"""Little's law of a queue, measured: the rate of arrivals, the mean wait, and the mean length beside their product.

L = lambda W (Little, Operations Research 1961). Rate and wait are taken from what comes and goes, the length from how
many were there for how long; so that the two agree says that the queue is measured right and is in balance.
"""

from collections import deque
from dataclasses import dataclass

_LEAST_COVERED_S = 1.0
"""A rate is never taken over less than this, so that a first arrival is not a huge rate."""


@dataclass(frozen=True, slots=True)
class QueueFlow:
    """What went through a queue lately. ``wait_s`` is the mean of those that left, None where none did."""

    length: int
    arrivals_per_s: float
    wait_s: float | None
    mean_length: float

    @property
    def expected_length(self) -> float | None:
        """Rate times wait: what the mean length is by Little's law."""
        return None if self.wait_s is None else self.arrivals_per_s * self.wait_s


@dataclass(slots=True)
class _Slot:
    number: int
    arrived: int = 0
    left: int = 0
    waited_s: float = 0.0
    item_seconds: float = 0.0


class QueueMeter:
    """Counts what comes into a queue and what leaves it, over a sliding window of ``span_s`` in ``slots`` steps.

    Times are monotonic seconds; one that comes a little late counts in the newest step.
    """

    def __init__(self, span_s: float = 30.0, slots: int = 30) -> None:
        if not span_s > 0 or slots < 2:
            raise ValueError(f"span {span_s} s and {slots} slots: the span must be positive, the slots at least 2")
        self._slot_s, self._slots = span_s / slots, slots
        self._recent: deque[_Slot] = deque(maxlen=slots)
        self._length = 0
        self._first_s: float | None = None
        self._last_s = 0.0

    def arrived(self, now_s: float) -> None:
        """One more waits."""
        self._advance(now_s).arrived += 1
        self._length += 1

    def left(self, now_s: float, waited_s: float) -> None:
        """One waits no more, for whatever reason, after so long. Raises ValueError where none was there."""
        if self._length == 0:
            raise ValueError("nothing is in the queue that could leave it")
        slot = self._advance(now_s)
        slot.left += 1
        slot.waited_s += waited_s
        self._length -= 1

    def flow(self, now_s: float) -> QueueFlow:
        """The figures of the window that ends now."""
        if self._first_s is None:
            return QueueFlow(0, 0.0, None, 0.0)
        self._advance(now_s)
        opened_s = self._recent[0].number * self._slot_s
        covered_s = max(self._last_s - max(opened_s, self._first_s), _LEAST_COVERED_S)
        left = sum(slot.left for slot in self._recent)
        return QueueFlow(
            length=self._length,
            arrivals_per_s=sum(slot.arrived for slot in self._recent) / covered_s,
            wait_s=sum(slot.waited_s for slot in self._recent) / left if left else None,
            mean_length=sum(slot.item_seconds for slot in self._recent) / covered_s,
        )

    def _advance(self, now_s: float) -> _Slot:
        """Account for the time since the last event at the length that it had; the slot of now."""
        if self._first_s is None:
            self._first_s = self._last_s = now_s
            self._recent.append(_Slot(int(now_s // self._slot_s)))
        last = max(int(now_s // self._slot_s), self._recent[-1].number)
        for number in range(max(self._recent[-1].number + 1, last - self._slots + 1), last + 1):
            self._spend(number * self._slot_s)
            self._recent.append(_Slot(number))
        self._spend(now_s)
        return self._recent[-1]

    def _spend(self, until_s: float) -> None:
        """Add the item-seconds up to a moment to the newest slot, of which at most one step belongs there."""
        step_s = min(until_s - self._last_s, self._slot_s)
        if step_s > 0:
            self._recent[-1].item_seconds += self._length * step_s
            self._last_s = until_s
