"""What one stream has under way on a modelled link; it happens when it arrives."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from pipeline.network.link import Stream
from pipeline.timing import Clock

Arrival = Callable[[], Awaitable[object]]


class Lane:
    """Arrivals to come, in order. Whoever sends sees to it that they do not become too many.

    ``clock`` is that of the running event loop.
    """

    def __init__(self, stream: Stream, clock: Clock) -> None:
        self._stream, self._clock = stream, clock
        self._coming: deque[tuple[float, int, Arrival]] = deque()
        self._filled, self._emptied = asyncio.Event(), asyncio.Event()
        self._bytes = 0

    @property
    def under_way(self) -> int:
        """How much of what was sent has not arrived, in arrivals."""
        return len(self._coming)

    @property
    def under_way_bytes(self) -> int:
        """The same in bytes."""
        return self._bytes

    def send(self, size_bytes: int, arrival: Arrival) -> None:
        """Send so many bytes; ``arrival`` is awaited when the last of them is there."""
        self._coming.append((self._stream.transmit(size_bytes, self._clock.now_s()), size_bytes, arrival))
        self._bytes += size_bytes
        self._filled.set()

    async def room(self, most_bytes: int) -> None:
        """Return once no more than so much is under way; for one caller."""
        while self._bytes > most_bytes:
            self._emptied.clear()
            await self._emptied.wait()

    async def run(self) -> None:
        """Let things arrive, one after the other, until cancelled or until an arrival raises."""
        while True:
            while self._coming:
                wait_s = self._coming[0][0] - self._clock.now_s()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                _, size_bytes, arrival = self._coming.popleft()
                self._bytes -= size_bytes
                await arrival()
                self._emptied.set()
            self._filled.clear()
            await self._filled.wait()
