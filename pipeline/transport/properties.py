"""The properties of an MQTT 5 PUBLISH as bytes (MQTT 5.0, sections 2.2.2 and 3.3.2.3)."""

from dataclasses import dataclass

from pipeline.transport.base import Outgoing
from pipeline.transport.matching import topic_fault

_MESSAGE_EXPIRY, _RESPONSE_TOPIC, _CORRELATION, _USER = b"\x02", b"\x08", b"\x09", b"\x26"
_MAX_BINARY_BYTES = 65_535
_HEADER_ROOM_BYTES = 1024
"""Generous for what is in a packet besides payload and texts."""


@dataclass(frozen=True, slots=True)
class PublishProperties:
    """Stands where paho takes its own ``Properties``, of which a publish only asks for the bytes: those look every name
    up in a table that each of them makes anew, which takes longer than the rest of a publish.
    """

    packed: bytes

    def pack(self) -> bytes:
        return self.packed


def fits(outgoing: Outgoing, packet_bytes: int) -> bool:
    """Whether a message can be told in MQTT 5, in a packet of at most so many bytes."""
    texts = [outgoing.topic, outgoing.response_topic or ""]
    for name, value in outgoing.properties.items():
        texts += [name, value]
    try:
        sizes = [len(text.encode()) for text in texts]
    except UnicodeEncodeError:
        return False
    sizes.append(len(outgoing.correlation or b""))
    response = outgoing.response_topic
    return (
        topic_fault(outgoing.topic) is None
        and (response is None or topic_fault(response) is None)
        and not any("\0" in text for text in texts)
        and max(sizes) <= _MAX_BINARY_BYTES
        and outgoing.qos in {0, 1, 2}
        and 0 <= (outgoing.expiry_s or 0) < 2**32
        and len(outgoing.payload) + sum(sizes) + _HEADER_ROOM_BYTES <= packet_bytes
    )


def publish_properties(outgoing: Outgoing) -> PublishProperties | None:
    """The properties of a message; None when there are none, because a v3.1.1 session of rumqttd dies of any.

    The message must be one that ``fits``.
    """
    parts: list[bytes] = []
    if outgoing.expiry_s is not None:
        parts += [_MESSAGE_EXPIRY, outgoing.expiry_s.to_bytes(4, "big")]
    if outgoing.response_topic is not None:
        parts += [_RESPONSE_TOPIC, _sized(outgoing.response_topic.encode())]
    if outgoing.correlation is not None:
        parts += [_CORRELATION, _sized(outgoing.correlation)]
    for name, value in outgoing.properties.items():
        parts += [_USER, _sized(name.encode()), _sized(value.encode())]
    if not parts:
        return None
    body = b"".join(parts)
    return PublishProperties(_variable_byte_integer(len(body)) + body)


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def _variable_byte_integer(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow (section 1.5.5)."""
    encoded = bytearray()
    while True:
        value, low = divmod(value, 128)
        encoded.append(low | (128 if value else 0))
        if not value:
            return bytes(encoded)
