"""What is sent along with a message is read by others as it was meant."""

from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from pipeline.transport.base import Outgoing
from pipeline.transport.properties import publish_properties

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
