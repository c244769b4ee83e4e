"""Bounded channels between stages. Each has a capacity, an overflow rule and counters.

Made for one event loop; hand work in from other threads with ``loop.call_soon_threadsafe``.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from pipeline.metrics.little import QueueFlow, QueueMeter
from pipeline.timing import Clock

T = TypeVar("T")


class Overflow(StrEnum):
    """What a full channel does with one more item."""

    WAIT = "wait"  # the sender waits
    DROP_OLDEST = "drop_oldest"  # newest wins; the oldest item is handed back to the sender
    REFUSE = "refuse"  # the new item is handed back to the sender


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Counters of one channel at one moment."""

    name: str
    capacity: int
    length: int
    received: int
    displaced: int


class Closed(Exception):  # noqa: N818 - an end of stream, not an error
    """The channel is closed and empty."""


class Channel(Generic[T]):
    """A bounded first-in, first-out channel.

    ``send`` returns the item that found no room (the displaced or the refused one), or None. After ``close`` the
    remaining items can still be received; then ``receive`` raises ``Closed``. With a ``clock`` it is metered: ``flow``.
    """

    def __init__(self, name: str, capacity: int, overflow: Overflow, clock: Clock | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"channel {name}: capacity {capacity}, must be at least 1")
        self._name = name
        self._capacity = capacity
        self._overflow = overflow
        self._clock, self._meter = clock, QueueMeter()
        self._items: deque[tuple[T, float]] = deque()
        self._changed = asyncio.Condition()
        self._closed = False
        self._received = 0
        self._displaced = 0

    def statistics(self) -> ChannelStatistics:
        return ChannelStatistics(self._name, self._capacity, len(self._items), self._received, self._displaced)

    @property
    def name(self) -> str:
        return self._name

    def flow(self) -> QueueFlow | None:
        """What has gone through lately, for Little's law; None without a clock."""
        return None if self._clock is None else self._meter.flow(self._clock.now_s())

    def __len__(self) -> int:
        return len(self._items)

    async def send(self, item: T) -> T | None:
        """Put an item in by the overflow rule. Raises Closed on a closed channel."""
        async with self._changed:
            while self._overflow is Overflow.WAIT and len(self._items) >= self._capacity and not self._closed:
                await self._changed.wait()
            if self._closed:
                raise Closed(self._name)
            self._received += 1
            rejected: T | None = None
            if len(self._items) >= self._capacity:
                self._displaced += 1
                if self._overflow is Overflow.REFUSE:
                    return item
                rejected = self._take()
            now_s = self._now_s()
            self._items.append((item, now_s))
            self._meter.arrived(now_s)
            self._changed.notify_all()
            return rejected

    async def receive(self) -> T:
        """Take the oldest item, waiting for one. Raises Closed when none will come."""
        async with self._changed:
            while not self._items:
                if self._closed:
                    raise Closed(self._name)
                await self._changed.wait()
            item = self._take()
            self._changed.notify_all()
            return item

    async def close(self) -> None:
        """Let no more items in."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self) -> T:
        item, since_s = self._items.popleft()
        now_s = self._now_s()
        self._meter.left(now_s, now_s - since_s)
        return item

    def _now_s(self) -> float:
        return 0.0 if self._clock is None else self._clock.now_s()
