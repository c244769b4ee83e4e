"""The properties of an MQTT 5 PUBLISH as bytes (MQTT 5.0, sections 2.2.2 and 3.3.2.3)."""

from dataclasses import dataclass

from pipeline.transport.base import Outgoing

_MESSAGE_EXPIRY, _RESPONSE_TOPIC, _CORRELATION, _USER = b"\x02", b"\x08", b"\x09", b"\x26"


@dataclass(frozen=True, slots=True)
class PublishProperties:
    """Stands where paho takes its own ``Properties``, of which a publish only asks for the bytes: those look every name
    up in a table that each of them makes anew, which takes longer than the rest of a publish.
    """

    packed: bytes

    def pack(self) -> bytes:
        return self.packed


def publish_properties(outgoing: Outgoing) -> PublishProperties | None:
    """The properties of a message; None when there are none, because a v3.1.1 session of rumqttd dies of any.

    Texts and binaries must have at most 65,535 bytes each.
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
