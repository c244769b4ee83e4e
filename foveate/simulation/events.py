"""The event loop of the simulator: a heap of what happens when. No asyncio, so that a thousand cameras cost little."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class EventLoop:
    """Calls handlers in the order of their time; among equal times, in the order in which they were scheduled."""

    __slots__ = ("_heap", "_scheduled", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._scheduled = 0

    @property
    def scheduled(self) -> int:
        """How many events were scheduled so far."""
        return self._scheduled

    def at(self, at_s: float, handler: Callable[[Any], None], argument: Any = None) -> None:
        """Call ``handler(argument)`` at ``at_s``, or now where that is past."""
        self._scheduled += 1
        heappush(self._heap, (max(at_s, self.now_s), self._scheduled, handler, argument))

    def run(self, until_s: float) -> None:
        """Let time pass up to ``until_s``; what is due later stays scheduled."""
        heap = self._heap
        while heap and heap[0][0] <= until_s:
            self.now_s, _, handler, argument = heappop(heap)
            handler(argument)
        self.now_s = max(self.now_s, until_s)
