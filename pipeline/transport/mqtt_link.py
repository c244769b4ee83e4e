"""One MQTT 5 connection over aiomqtt and paho. The only module that imports them."""

import asyncio
import contextlib
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn, cast

import aiomqtt
from aiomqtt.exceptions import MqttConnectError
from paho.mqtt.client import MQTTMessageInfo
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.properties import PublishProperties, fits, publish_properties
from pipeline.transport.settings import MqttSettings
from pipeline.transport.socket_options import NO_DELAY, unacknowledged_bytes
from pipeline.transport.tls import tls_reason

GOODBYE_S = 1.0
_UNSPECIFIED = 0x80
_TAKEN_OVER = 0x8E
_NEEDS_A_PERSON = frozenset({0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x9C, 0x9D})
"""Reason codes: version, client id, password, rights, banned, method, moved."""

# Every loss of a connection is told once, by the session; the library's own lines would repeat it.
_library_log = logging.getLogger(f"{__name__}.library")
_library_log.setLevel(logging.CRITICAL + 1)


class Lost(Exception):  # noqa: N818 - an expected end, told in words that are ready to be shown
    """The connection ended or could not be made; ``needs_a_person`` where trying again soon is useless."""

    def __init__(self, reason: str, needs_a_person: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.needs_a_person = needs_a_person


class MqttLink:
    """One connection: an aiomqtt client that is used once, and what it has not sent yet."""

    def __init__(
        self,
        settings: MqttSettings,
        client_id: str,
        will: Outgoing | None,
        tls: ssl.SSLContext | None,
        receive: Callable[[Message], None],
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._where = f"{settings.host}:{settings.port}"
        self._entered = False
        self._end: ReasonCode | None = None
        self._closed = asyncio.Event()
        self._pending: deque[tuple[MQTTMessageInfo, int]] = deque()
        self._awaited_bytes = 0
        self._packet_bytes = settings.packet_bytes
        connect = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho's class has no annotations
        connect.MaximumPacketSize = settings.packet_bytes
        self._client = aiomqtt.Client(
            settings.host,
            settings.port,
            username=settings.username,
            password=settings.password,
            identifier=client_id,
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=True,  # no session expiry either: a dead session keeps no share of a shared subscription
            keepalive=settings.keepalive_s,
            will=None if will is None else _will(will),
            timeout=settings.ack_timeout_s,
            queue_type=cast("Any", lambda maxsize: _Straight(maxsize, receive)),
            properties=connect,
            tls_context=tls,
            socket_options=NO_DELAY,
            logger=_library_log,
        )
        self._paho.connect_timeout = settings.connect_timeout_s
        self._listen_in()

    @property
    def _paho(self) -> Any:
        # aiomqtt hides what is needed here: the limits in CONNACK, a publish that does not wait, the socket.
        return self._client._client  # noqa: SLF001 - as said above

    async def open(self) -> None:
        """Connect. Raises Lost."""
        entering = asyncio.ensure_future(self._client.__aenter__())
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({entering, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not entering.done() and not self._client._connected.done():  # noqa: SLF001 - aiomqtt would wait on
                raise Lost(f"{self._where} cannot be reached: it closed the connection without an answer")
            await asyncio.shield(entering)
        except aiomqtt.MqttError as error:
            raise self._not_made(error) from error
        finally:
            closed.cancel()
            if self._paho.socket() is None and not self._closed.is_set():
                # The thread that dials cannot be stopped; left alone it would connect for nobody.
                await asyncio.wait({entering}, timeout=self._settings.connect_timeout_s)
            entering.cancel()
            await asyncio.gather(entering, closed, return_exceptions=True)
            self._entered = not entering.cancelled() and entering.exception() is None
        if self._paho.socket() is None:  # ended in the same read as it began: aiomqtt would wait for ever
            raise self._ended()
        self._paho.on_socket_register_write = self._watch_writable

    async def subscribe(self, filters: list[tuple[str, int]]) -> None:
        """Subscribe to all filters at once. Raises Lost, also where the broker refuses one."""
        if not filters:
            return
        wanted: Any = [(name, SubscribeOptions(qos=qos)) for name, qos in filters]
        try:
            codes = await self._client.subscribe(wanted)
        except aiomqtt.MqttError as error:
            raise self._ended(error) from error
        for (name, _), code in zip(filters, cast("list[ReasonCode]", codes), strict=True):
            if code.value >= 0x80:
                raise Lost(f"{self._where} refused the subscription to {name!r}: {code}", needs_a_person=True)

    async def unsubscribe(self, topic_filter: str) -> None:
        """Unsubscribe from a filter, and wait for the broker's word: what it sent before has been received then."""
        with contextlib.suppress(aiomqtt.MqttError):  # lost, or no answer: either way nothing is owed any more
            await self._client.unsubscribe(topic_filter)

    async def wait_lost(self) -> NoReturn:
        """Wait until the connection is lost. Raises Lost, always."""
        try:
            async for _ in self._client.messages:
                pass  # messages go straight to their handlers, none comes this way
        except aiomqtt.MqttError as error:
            raise self._ended(error) from error
        raise AssertionError("the iterator of messages ends by raising")

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        if not fits(outgoing, self._packet_bytes):
            return PublishStatus.REFUSED
        backlog_bytes = self.backlog_bytes()
        if backlog_bytes and backlog_bytes + len(outgoing.payload) > self._settings.backlog_bytes:
            return PublishStatus.BACKLOG
        properties = publish_properties(outgoing)
        if outgoing.qos == 0:
            return self._hand_over(outgoing, properties)
        return await self._acknowledged(outgoing, properties)

    def backlog_bytes(self) -> int:
        """Bytes on this side of the link: handed over and not written, or written and not acknowledged by TCP."""
        while self._pending and self._pending[0][0].is_published():
            self._pending.popleft()
        unwritten = sum(size for _, size in self._pending)
        return unwritten + self._awaited_bytes + unacknowledged_bytes(self._paho.socket())

    async def close(self) -> None:
        """Say goodbye if there is still somebody to say it to, and leave no socket open."""
        if self._entered:
            self._client.timeout = GOODBYE_S
            with contextlib.suppress(aiomqtt.MqttError):
                await self._client.__aexit__(None, None, None)
        await asyncio.sleep(0)  # paho's watchers of the socket are set by callbacks that may still be queued
        # Without an answer in time aiomqtt leaves the socket open, and its watcher on the loop.
        self._paho._sock_close()  # noqa: SLF001 - no public way
        for future in (self._client._disconnected, self._client._connected):  # noqa: SLF001 - marks errors as seen
            if future.done() and not future.cancelled():
                future.exception()

    def _hand_over(self, outgoing: Outgoing, properties: PublishProperties | None) -> PublishStatus:
        info = self._paho.publish(outgoing.topic, outgoing.payload, 0, outgoing.retain, properties)
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            return PublishStatus.NOT_CONNECTED
        self._pending.append((info, len(outgoing.payload)))
        self._write()
        return PublishStatus.SENT

    async def _acknowledged(self, outgoing: Outgoing, properties: PublishProperties | None) -> PublishStatus:
        size = len(outgoing.payload)
        own: Any = properties  # as paho takes it
        sending = asyncio.ensure_future(
            self._client.publish(outgoing.topic, outgoing.payload, outgoing.qos, outgoing.retain, own)
        )
        lost = self._client._disconnected  # noqa: SLF001 - a publish alone would wait on for an answer
        self._awaited_bytes += size
        try:
            await asyncio.wait({sending, lost}, return_when=asyncio.FIRST_COMPLETED)
            acknowledged = sending.done() and sending.exception() is None
        finally:
            self._awaited_bytes -= size
            if not sending.done():
                sending.cancel()
        return PublishStatus.SENT if acknowledged else PublishStatus.NOT_CONNECTED

    def _watch_writable(self, _client: Any, _userdata: Any, sock: Any) -> None:
        """Write on when the socket takes more. aiomqtt would set the watch only when the loop comes round, and would
        leave it set where all was written at once.
        """
        asyncio.get_running_loop().add_writer(sock.fileno(), self._write)

    def _write(self) -> None:
        """Write what waits, as far as the socket takes it; what is left goes on when it takes more."""
        try:
            self._paho.loop_write()
        except OSError as error:  # as aiomqtt does, whose place this takes
            if not self._client._disconnected.done():  # noqa: SLF001 - ends the iterator of messages
                self._client._disconnected.set_exception(error)  # noqa: SLF001 - as above

    def _listen_in(self) -> None:
        """Note the limits that the broker states and the reason it gives for an end; aiomqtt passes on neither."""
        connected, disconnected = self._paho.on_connect, self._paho.on_disconnect
        loop = asyncio.get_running_loop()

        def on_connect(client: Any, userdata: Any, flags: Any, code: ReasonCode, properties: Properties | None) -> None:
            limit = getattr(properties, "MaximumPacketSize", None)
            if limit is not None:
                self._packet_bytes = min(self._packet_bytes, limit)
            connected(client, userdata, flags, code, properties)

        def on_disconnect(client: Any, userdata: Any, flags: Any, code: ReasonCode, properties: Any) -> None:
            self._end = self._end or code
            loop.call_soon_threadsafe(self._closed.set)
            disconnected(client, userdata, flags, code, properties)

        self._paho.on_connect, self._paho.on_disconnect = on_connect, on_disconnect

    def _not_made(self, error: aiomqtt.MqttError) -> Lost:
        if isinstance(error, MqttConnectError):
            code = error.rc
            number = code.value if isinstance(code, ReasonCode) else None
            return Lost(f"{self._where} refused the connection: {code}", needs_a_person=number in _NEEDS_A_PERSON)
        if isinstance(error.__context__, ssl.SSLError):
            return Lost(tls_reason(error.__context__, self._settings), needs_a_person=True)
        return Lost(f"{self._where} cannot be reached: {self._told(error)}")

    def _ended(self, error: aiomqtt.MqttError | None = None) -> Lost:
        number = None if self._end is None else self._end.value
        if number == _TAKEN_OVER:
            return Lost(f"session taken over: another client of {self._where} has the client id {self._client_id!r}")
        if number == _UNSPECIFIED:  # also what paho says of a socket that closed
            why = f"closed without a reason (if this repeats, look for another client with the id {self._client_id!r})"
        else:
            why = self._told(error) if self._end is None else str(self._end)
        return Lost(f"the connection to {self._where} was lost: {why}")

    def _told(self, error: aiomqtt.MqttError | None) -> str:
        if str(error) == "Operation timed out":
            return f"no answer within {self._settings.ack_timeout_s:g} s"
        return str(error)


def _will(will: Outgoing) -> aiomqtt.Will:
    """A will with the expiry it is to have as a message; the other properties of a message are none of its own."""
    properties = None
    if will.expiry_s is not None:
        properties = Properties(PacketTypes.WILLMESSAGE)  # type: ignore[no-untyped-call] # as above
        properties.MessageExpiryInterval = will.expiry_s
    return aiomqtt.Will(will.topic, will.payload, will.qos, will.retain, properties)


class _Straight(asyncio.Queue[aiomqtt.Message]):  # noqa: TID251 - holds nothing
    """Stands where aiomqtt keeps its queue, and hands each message over at once: no queue, no task per message."""

    def __init__(self, maxsize: int, receive: Callable[[Message], None]) -> None:
        super().__init__(maxsize)
        self._receive = receive

    def put_nowait(self, item: aiomqtt.Message) -> None:
        self._receive(_message(item))


def _message(item: aiomqtt.Message) -> Message:
    payload = item.payload if isinstance(item.payload, bytes) else bytes(item.payload)
    found = item.properties
    return Message(
        topic=str(item.topic),
        payload=payload,
        retain=bool(item.retain),
        response_topic=getattr(found, "ResponseTopic", None),
        correlation=getattr(found, "CorrelationData", None),
        properties=dict(getattr(found, "UserProperty", ())),
    )
