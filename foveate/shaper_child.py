"""The relay between an agent and its broker that behaves like a modelled network; see ``foveate/shaper.py``."""

import asyncio
import contextlib
import logging
import os
import selectors
import socket
import sys
import threading
from dataclasses import dataclass
from functools import partial

import msgspec

from pipeline.errors import FoveateError
from pipeline.network.link import SEGMENT_BYTES, Link
from pipeline.network.profiles import profile
from pipeline.timing import Clock, MonotonicClock
from pipeline.transport.lane import Lane
from pipeline.transport.socket_options import NO_DELAY

_log = logging.getLogger(__name__)
CHUNK_BYTES = 11 * SEGMENT_BYTES
QUEUE_BYTES = 64 * 1024
"""So much waits for the link, and a chunk of each connection; the rest stays with the sender, not acknowledged."""
WINDOW_BYTES = 1024 * 1024
"""So much of one connection may be under way in each direction, what is sent again included."""
MOST_CONNECTIONS = 64
DIAL_TIMEOUT_S = 3.0

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class ShaperOrder:
    """All that this process needs to know: the network, and the broker behind it."""

    profile: str
    seed: int
    host: str
    port: int


class ShapingRelay:
    """Passes bytes between whoever connects and ``host:port``, blind to what they say, at the pace of two links.

    All connections share the links. The end of one side reaches the other after what was sent before it.
    """

    def __init__(self, host: str, port: int, links: tuple[Link, Link], clock: Clock) -> None:
        self._host, self._port = host, port
        self._links, self._clock = links, clock
        self._connections = 0
        self._fault = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it; a callback for ``asyncio.start_server``."""
        if self._connections >= MOST_CONNECTIONS:
            writer.close()
            return
        self._connections += 1
        try:
            far = await self._dial()
            if far is not None:
                await self._join((reader, writer), far)
        finally:
            self._connections -= 1
            writer.close()

    async def _dial(self) -> Ends | None:
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                ends = await asyncio.open_connection(self._host, self._port, limit=CHUNK_BYTES)
        except OSError as error:  # a timeout is one too
            fault = str(error) or f"no answer within {DIAL_TIMEOUT_S:g} s"
            if fault != self._fault:  # not at every attempt of a long absence
                _log.warning("the broker %s:%d cannot be reached: %s", self._host, self._port, fault)
            self._fault = fault
            return None
        self._fault = ""
        return ends

    async def _join(self, near: Ends, far: Ends) -> None:
        lanes = [Lane(link.stream(), self._clock) for link in self._links]
        for _, writer in (near, far):
            _tune(writer.get_extra_info("socket"))
        tasks = [
            asyncio.ensure_future(self._take(near[0], far[1], lanes[0], self._links[0])),
            asyncio.ensure_future(self._take(far[0], near[1], lanes[1], self._links[1])),
            *(asyncio.ensure_future(lane.run()) for lane in lanes),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            far[1].close()
            for task in tasks:
                task.cancel()
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(found, Exception) and not isinstance(found, OSError):
                    raise found

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lane: Lane, link: Link) -> None:
        """Read one side as fast as there is room on the link, until its end has come to the other."""
        while True:
            await lane.room(WINDOW_BYTES)
            now_s = self._clock.now_s()
            await asyncio.sleep(link.room_at_s(QUEUE_BYTES, now_s) - now_s)
            data = await reader.read(CHUNK_BYTES)
            if not data:
                break
            lane.send(len(data), partial(_write, writer, data))
        ended = asyncio.Event()
        lane.send(0, partial(_set, ended))
        await ended.wait()


def _tune(sock: socket.socket) -> None:
    """Small buffers, so that a sender feels the link, and no waiting for acknowledgements."""
    with contextlib.suppress(OSError):  # it may have ended already
        sock.setsockopt(*NO_DELAY[0])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE_BYTES)


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _set(event: asyncio.Event) -> None:
    event.set()


async def serve(listener: socket.socket, order: ShaperOrder) -> None:
    """Relay what comes in on a listening socket, until cancelled. Raises ConfigError."""
    clock = MonotonicClock()
    links = profile(order.profile, order.seed).links()
    relay = ShapingRelay(order.host, order.port, links, clock)
    server = await asyncio.start_server(relay.serve, sock=listener, limit=CHUNK_BYTES)
    async with server:
        await server.serve_forever()


def main() -> int:
    """Run the relay on the listening socket whose number is the argument; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="network: %(message)s")
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ShaperOrder)
    threading.Thread(target=_end_with_parent, daemon=True, name="lifeline").start()
    try:
        with asyncio.Runner(loop_factory=_punctual_loop) as runner:
            runner.run(serve(socket.socket(fileno=int(sys.argv[1])), order))
    except FoveateError as error:
        print(f"network: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _punctual_loop() -> asyncio.AbstractEventLoop:
    """A loop whose timers are not rounded up to the next millisecond, as those of epoll are."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def _end_with_parent() -> None:
    # Not through sys.stdin: a thread that holds its lock would hinder the interpreter's end.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
