"""Replies on their way out."""

import asyncio
from collections import Counter, deque

from pipeline.transport.base import Outgoing, PublishStatus, Transport


class Outbox:
    """Sends replies in order. Holds at most ``capacity``; one more displaces the oldest, which is counted as lost.

    Not a Channel, because replies are put in by message handlers, which cannot wait.
    """

    def __init__(self, transport: Transport, capacity: int = 1024) -> None:
        self._transport = transport
        self._capacity = capacity
        self._waiting: deque[Outgoing] = deque()
        self._changed = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._lost: Counter[str] = Counter()

    @property
    def lost(self) -> dict[str, int]:
        """Replies that were not sent, by reason."""
        return dict(self._lost)

    def put(self, reply: Outgoing) -> None:
        """Hand a reply over."""
        if len(self._waiting) >= self._capacity:
            self._waiting.popleft()
            self._lost["displaced"] += 1
        self._waiting.append(reply)
        self._empty.clear()
        self._changed.set()

    async def wait_empty(self) -> None:
        """Return at a moment at which every reply is sent or lost."""
        while not self._empty.is_set():  # one may have been put in since the event woke us
            await self._empty.wait()

    async def run(self) -> None:
        """Send until cancelled. A reply that cannot be sent now is worth nothing later, so it is not kept."""
        while True:
            self._changed.clear()
            while self._waiting:
                status = await self._transport.publish(self._waiting.popleft())
                if status is not PublishStatus.SENT:
                    self._lost[status.value] += 1
            self._empty.set()
            await self._changed.wait()
