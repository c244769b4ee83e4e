"""Any transport, with a modelled network between its session and the broker."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from pipeline.network.link import Link
from pipeline.timing import Clock
from pipeline.transport.base import Handler, Message, Outgoing, PublishStatus, SessionState, Transport
from pipeline.transport.dispatch import Dispatcher
from pipeline.transport.lane import Lane
from pipeline.transport.matching import topic_fault
from pipeline.transport.memory import INBOX_BYTES, INBOX_MESSAGES

BACKLOG_BYTES = 256 * 1024
PACKET_BYTES = 8 * 1024 * 1024 + 64 * 1024
ACK_TIMEOUT_S = 5.0
_ACK_BYTES = 4
_FIXED_BYTES = 8  # the fixed header, and the lengths of topic and properties
_PROPERTY_BYTES = 5

Acknowledged = asyncio.Future[PublishStatus]


class ShapedTransport:
    """Implements ``Transport``: what is published goes up a link before it reaches ``inner``, what comes goes down one.

    Each session is a TCP stream of its own; several share a pair of links. A QoS 0 publish is ``SENT`` at once, another
    one when its acknowledgement has come down. Where more than ``backlog_bytes`` would be under way it is ``BACKLOG``,
    as with a real session. What is under way when the connection ends is lost with it. Connecting and subscribing take
    no time. ``clock`` is that of the running event loop.
    """

    def __init__(
        self, inner: Transport, up: Link, down: Link, clock: Clock, backlog_bytes: int = BACKLOG_BYTES
    ) -> None:
        self._inner, self._backlog_bytes = inner, backlog_bytes
        self._up, self._down = Lane(up.stream(), clock), Lane(down.stream(), clock)
        self._dispatcher = Dispatcher("shaped")
        self._overflowed = 0
        self._awaited: set[Acknowledged] = set()
        self._handing_over: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> SessionState:
        inner, counted = self._inner.state, self._dispatcher
        lost = self._overflowed + inner.ignored
        received, ignored = counted.received + lost, counted.ignored + lost
        return SessionState(inner.connected, inner.reason, inner.connects, received, ignored)

    def subscribe(self, topic_filter: str, handler: Handler, qos: int = 0) -> None:
        self._inner.subscribe(topic_filter, self._come, qos)
        self._dispatcher.add(topic_filter, handler, qos)

    async def unsubscribe(self, topic_filter: str) -> None:
        await self._inner.unsubscribe(topic_filter)
        if self._inner.state.connected:  # the broker's word comes down behind all that it had sent
            waiting: Acknowledged = asyncio.get_running_loop().create_future()
            self._down.send(_ACK_BYTES, partial(self._confirm, self._inner.state.connects, waiting))
            await self._answer_to(waiting)

    def on_connect(self, birth: Callable[[], Awaitable[None]]) -> None:
        self._inner.on_connect(birth)

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        state, size_bytes = self._inner.state, message_bytes(outgoing)
        if not state.connected:
            return PublishStatus.NOT_CONNECTED
        if size_bytes is None or topic_fault(outgoing.topic) or size_bytes > PACKET_BYTES:
            return PublishStatus.REFUSED
        under_way_bytes = self._up.under_way_bytes
        if under_way_bytes and under_way_bytes + size_bytes > self._backlog_bytes:
            return PublishStatus.BACKLOG
        if outgoing.qos == 0:
            self._up.send(size_bytes, partial(self._hand_over, outgoing, state.connects))
            return PublishStatus.SENT
        return await self._acknowledged(outgoing, size_bytes, state.connects)

    async def wait_connected(self) -> None:
        await self._inner.wait_connected()

    async def run(self) -> None:
        parts = [asyncio.create_task(part.run()) for part in (self._inner, self._up, self._down)]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in ended:
                part.result()  # raises what ended it, be it a lane
        finally:
            for waiting in self._awaited:
                _settle(waiting, PublishStatus.NOT_CONNECTED)
            tasks = (*parts, *self._handing_over)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _acknowledged(self, outgoing: Outgoing, size_bytes: int, connection: int) -> PublishStatus:
        waiting: Acknowledged = asyncio.get_running_loop().create_future()
        self._up.send(size_bytes, partial(self._begin, outgoing, connection, waiting))
        return await self._answer_to(waiting)

    async def _answer_to(self, waiting: Acknowledged) -> PublishStatus:
        self._awaited.add(waiting)
        try:
            async with asyncio.timeout(ACK_TIMEOUT_S):
                return await waiting
        except TimeoutError:
            return PublishStatus.NOT_CONNECTED
        finally:
            self._awaited.discard(waiting)

    async def _begin(self, outgoing: Outgoing, connection: int, waiting: Acknowledged) -> None:
        """Hand a message over that waits for the broker's word, without holding up what comes behind it."""
        task = asyncio.create_task(self._confirmed(outgoing, connection, waiting))
        self._handing_over.add(task)
        task.add_done_callback(self._handing_over.discard)
        await asyncio.sleep(0)  # it is with the broker before the next one is

    async def _confirmed(self, outgoing: Outgoing, connection: int, waiting: Acknowledged) -> None:
        status = await self._hand_over(outgoing, connection)
        if status is PublishStatus.SENT:
            self._down.send(_ACK_BYTES, partial(self._confirm, connection, waiting))
        else:
            _settle(waiting, status)

    async def _confirm(self, connection: int, waiting: Acknowledged) -> None:
        _settle(waiting, PublishStatus.SENT if self._lasts(connection) else PublishStatus.NOT_CONNECTED)

    async def _hand_over(self, outgoing: Outgoing, connection: int) -> PublishStatus:
        return await self._inner.publish(outgoing) if self._lasts(connection) else PublishStatus.NOT_CONNECTED

    def _come(self, message: Message) -> None:
        size_bytes = message_bytes(message) or 0
        if self._down.under_way >= INBOX_MESSAGES or self._down.under_way_bytes + size_bytes > INBOX_BYTES:
            self._overflowed += 1
            return
        self._down.send(size_bytes, partial(self._receive, message, self._inner.state.connects))

    async def _receive(self, message: Message, connection: int) -> None:
        if self._lasts(connection):
            self._dispatcher.dispatch(message)

    def _lasts(self, connection: int) -> bool:
        """Whether the session still has the connection on which something was sent."""
        state = self._inner.state
        return state.connected and state.connects == connection


def message_bytes(message: Outgoing | Message) -> int | None:
    """The size of an MQTT 5 PUBLISH packet, to a few bytes; None where a text is not valid Unicode."""
    texts = [message.topic, message.response_topic or ""]
    for pair in message.properties.items():
        texts += pair
    try:
        named = sum(len(text.encode()) for text in texts)
    except UnicodeEncodeError:
        return None
    properties = _PROPERTY_BYTES * (2 + len(message.properties))
    return _FIXED_BYTES + properties + named + len(message.correlation or b"") + len(message.payload)


def _settle(waiting: Acknowledged, status: PublishStatus) -> None:
    if not waiting.done():
        waiting.set_result(status)
