"""MQTT 3.1.1 clients on an MQTT 5 broker: packets translated both ways.

The embedded broker's own 3.1.1 listener drops a session as soon as a message with MQTT 5 properties is due to it, so
a client that subscribes to ``foveate/#`` would never stay. Here the properties are taken off instead.
"""

import asyncio
import contextlib
from dataclasses import dataclass

CONNECT, CONNACK, PUBLISH, PUBREL, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, DISCONNECT = 1, 2, 3, 6, 8, 9, 10, 11, 14
_ACKNOWLEDGEMENTS = frozenset({4, 5, PUBREL, 7})
_NO_PROPERTIES = b"\0"
_CONNECT_CODES = {0x00: 0, 0x84: 1, 0x85: 2, 0x86: 4, 0x87: 5}
_UNAVAILABLE = 3
_WILL_FLAG = 0x04
_CLEAN_FLAG = 0x02
_KEEP_SESSION = b"\x05\x11\xff\xff\xff\xff"  # Session Expiry Interval: for ever, which is what 3.1.1 means


class BadPacketError(ValueError):
    """Bytes that are no packet of the protocol."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One control packet: the first byte's two halves, and all that follows the length."""

    kind: int
    flags: int
    body: bytes

    def encode(self) -> bytes:
        return bytes(((self.kind << 4) | self.flags,)) + encode_length(len(self.body)) + self.body


def encode_length(length: int) -> bytes:
    """A variable byte integer."""
    out = bytearray()
    while True:
        length, low = divmod(length, 128)
        out.append(low | (0x80 if length else 0))
        if not length:
            return bytes(out)


def up(packet: Packet) -> Packet:
    """A client's 3.1.1 packet as MQTT 5. Raises BadPacketError."""
    body = packet.body
    if packet.kind == CONNECT:
        return Packet(CONNECT, packet.flags, _connect(body))
    if packet.kind == PUBLISH:
        at = _after_publish_header(packet)
        return Packet(PUBLISH, packet.flags, body[:at] + _NO_PROPERTIES + body[at:])
    if packet.kind in {SUBSCRIBE, UNSUBSCRIBE}:
        return Packet(packet.kind, packet.flags, body[:2] + _NO_PROPERTIES + body[2:])
    return packet


def down(packet: Packet) -> Packet | None:
    """The broker's MQTT 5 packet as 3.1.1, or None where 3.1.1 has no such packet. Raises BadPacketError."""
    body = packet.body
    if packet.kind == CONNACK:
        if len(body) < 2:
            raise BadPacketError("CONNACK too short")
        return Packet(CONNACK, 0, bytes((body[0], _CONNECT_CODES.get(body[1], _UNAVAILABLE))))
    if packet.kind == PUBLISH:
        at = _after_publish_header(packet)
        return Packet(PUBLISH, packet.flags, body[:at] + body[_after_properties(body, at) :])
    if packet.kind in _ACKNOWLEDGEMENTS or packet.kind == UNSUBACK:
        return Packet(packet.kind, packet.flags, body[:2])
    if packet.kind == SUBACK:
        codes = body[_after_properties(body, 2) :]
        return Packet(SUBACK, 0, body[:2] + bytes(min(code, 0x80) for code in codes))
    return None if packet.kind == DISCONNECT else packet


def _connect(body: bytes) -> bytes:
    """The body of CONNECT: protocol level 5 instead of 4, with properties for the session and for the will."""
    if len(body) < 10 or body[:6] != b"\0\4MQTT" or body[6] != 4:
        raise BadPacketError("not an MQTT 3.1.1 CONNECT")
    flags = body[7]
    after_id = _after_string(body, 10)
    properties = _NO_PROPERTIES if flags & _CLEAN_FLAG else _KEEP_SESSION
    will = _NO_PROPERTIES if flags & _WILL_FLAG else b""
    return body[:6] + b"\5" + body[7:10] + properties + body[10:after_id] + will + body[after_id:]


def _after_publish_header(packet: Packet) -> int:
    at = _after_string(packet.body, 0)
    return at + 2 if packet.flags & 0x06 else at  # a packet identifier from QoS 1 on


def _after_string(body: bytes, at: int) -> int:
    end = at + 2 + int.from_bytes(body[at : at + 2], "big")
    if at + 2 > len(body) or end > len(body):
        raise BadPacketError("a string goes past the end of its packet")
    return end


def _after_properties(body: bytes, at: int) -> int:
    length, shift = 0, 0
    while at < len(body) and shift <= 21:
        byte = body[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return at + length
        shift += 7
    raise BadPacketError("properties go past the end of their packet")


async def read_packet(reader: asyncio.StreamReader, most_bytes: int) -> Packet:
    """Read one packet. Raises BadPacketError, and asyncio.IncompleteReadError at the end of the stream."""
    first = (await reader.readexactly(1))[0]
    length, shift = 0, 0
    while True:
        byte = (await reader.readexactly(1))[0]
        length |= (byte & 0x7F) << shift
        if not byte & 0x80:
            break
        shift += 7
        if shift > 21:
            raise BadPacketError("the length of a packet has more than four bytes")
    if length > most_bytes:
        raise BadPacketError(f"a packet of {length} bytes is over the limit of {most_bytes}")
    return Packet(first >> 4, first & 0x0F, await reader.readexactly(length))


class Relay:
    """Serves 3.1.1 clients by one MQTT 5 connection each. A client's death is passed on, so that its will is sent."""

    def __init__(self, broker_host: str, broker_port: int, packet_bytes: int, most_clients: int = 200) -> None:
        self._broker = broker_host, broker_port
        self._packet_bytes = packet_bytes
        self._most_clients = most_clients
        self._clients = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until either side ends; a callback for ``asyncio.start_server``."""
        if self._clients >= self._most_clients:
            writer.close()
            return
        self._clients += 1
        try:
            with contextlib.suppress(OSError, BadPacketError, asyncio.IncompleteReadError):
                await self._join(reader, writer)
        finally:
            self._clients -= 1
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(*self._broker)
        ways = [
            asyncio.ensure_future(self._pump(reader, broker_writer, upwards=True)),
            asyncio.ensure_future(self._pump(broker_reader, writer, upwards=False)),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            broker_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, upwards: bool) -> None:
        while True:
            packet = await read_packet(reader, self._packet_bytes)
            translated = up(packet) if upwards else down(packet)
            if translated is None:
                return
            writer.write(translated.encode())
            await writer.drain()
