"""What is sent along with a message is read by others as it was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from pipeline.transport.base import Outgoing
from pipeline.transport.properties import fits, publish_properties

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300)


@given(
    st.none() | st.integers(0, 2**32 - 1),
    st.none() | TEXT.filter(len),
    st.none() | st.binary(max_size=300),
    st.dictionaries(TEXT, TEXT, max_size=3),
)
def test_another_library_reads_what_was_packed(
    expiry_s: int | None, response_topic: str | None, correlation: bytes | None, properties: dict[str, str]
) -> None:
    outgoing = Outgoing(
        "t", b"", response_topic=response_topic, correlation=correlation, expiry_s=expiry_s, properties=properties
    )
    packed = publish_properties(outgoing)
    if packed is None:
        assert (expiry_s, response_topic, correlation, properties) == (None, None, None, {})
        return
    read, length = Properties(PacketTypes.PUBLISH).unpack(packed.pack())  # type: ignore[no-untyped-call]
    assert length == len(packed.pack())
    assert getattr(read, "MessageExpiryInterval", None) == expiry_s
    assert getattr(read, "ResponseTopic", None) == response_topic
    assert getattr(read, "CorrelationData", None) == correlation
    assert dict(getattr(read, "UserProperty", [])) == properties


def test_a_message_without_properties_has_none() -> None:
    assert publish_properties(Outgoing("t", b"x")) is None


@pytest.mark.parametrize("size", [127, 128, 16_383, 16_384, 65_535])
def test_long_texts_and_binaries_are_read_as_they_were_packed(size: int) -> None:
    outgoing = Outgoing("t", b"", correlation=b"c" * size, properties={"ü" * (size // 2): "v" * size})
    assert fits(outgoing, 2**20)
    packed = publish_properties(outgoing)
    assert packed is not None
    read, length = Properties(PacketTypes.PUBLISH).unpack(packed.pack())  # type: ignore[no-untyped-call]
    assert length == len(packed.pack())
    assert (read.CorrelationData, dict(read.UserProperty)) == (outgoing.correlation, outgoing.properties)


@pytest.mark.parametrize(
    "outgoing",
    [
        Outgoing("t", b"", properties={"traceparent": "a\0b"}),
        Outgoing("t", b"", properties={"a\ud800": "b"}),
        Outgoing("t", b"", properties={"a": "ü" * 32_768}),
        Outgoing("t", b"", response_topic="a/+"),
        Outgoing("t", b"", correlation=b"c" * 65_536),
        Outgoing("t", b"", expiry_s=2**32),
        Outgoing("t", b"", expiry_s=-1),
    ],
)
def test_what_a_broker_would_end_the_session_for_does_not_fit(outgoing: Outgoing) -> None:
    assert not fits(outgoing, 2**20)


def test_a_message_that_expires_at_once_says_so() -> None:
    packed = publish_properties(Outgoing("t", b"", expiry_s=0))
    assert packed is not None
    assert packed.pack() == b"\x05\x02\x00\x00\x00\x00"
