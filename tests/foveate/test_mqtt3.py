"""MQTT 3.1.1 clients on the embedded broker."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import CallbackAPIVersion

from foveate.mqtt3 import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PUBLISH,
    SUBACK,
    BadPacketError,
    Packet,
    down,
    encode_length,
    read_packet,
    up,
)
from pipeline.transport.base import Outgoing, PublishStatus
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from tests.support.brokers import HOST, Embedded, running, until


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    started = Embedded()
    started.start()
    yield started
    started.stop()


class OldClient:
    """A 3.1.1 client that keeps what it gets."""

    def __init__(self, broker: Embedded, topic_filter: str, will: str | None = None) -> None:
        self.got: list[tuple[str, bytes, bool]] = []
        self.subscribed = False
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        self.client.on_message = lambda _, __, message: self.got.append(
            (message.topic, bytes(message.payload), message.retain)
        )
        self.client.on_subscribe = self._on_subscribe
        if will is not None:
            self.client.will_set(will, b"gone", 1, retain=True)
        self.client.connect(HOST, broker.port_v3)
        self.client.loop_start()
        self.client.subscribe(topic_filter, 1)

    def _on_subscribe(self, *_: object) -> None:
        self.subscribed = True

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def old_client(broker: Embedded) -> Iterator[Callable[..., OldClient]]:
    made: list[OldClient] = []

    def make(topic_filter: str, will: str | None = None) -> OldClient:
        made.append(OldClient(broker, topic_filter, will))
        return made[-1]

    yield make
    for client in made:
        client.stop()


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_an_old_client_reads_messages_with_properties(
    broker: Embedded, old_client: Callable[..., OldClient], qos: int
) -> None:
    client = old_client(f"old{qos}/#")
    await until(lambda: client.subscribed)
    session = MqttTransport(MqttSettings(HOST, broker.port))
    async with running(session):
        request = Outgoing(
            f"old{qos}/a", bytes(100_000), qos, response_topic="x", correlation=b"1", expiry_s=9, properties={"a": "b"}
        )
        assert await session.publish(request) is PublishStatus.SENT
        assert await session.publish(Outgoing(f"old{qos}/b", b"plain", qos)) is PublishStatus.SENT
        await until(lambda: len(client.got) == 2)
    assert client.got == [(f"old{qos}/a", bytes(100_000), False), (f"old{qos}/b", b"plain", False)]


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_an_old_client_publishes_to_new_ones_also_retained(
    broker: Embedded, old_client: Callable[..., OldClient], qos: int
) -> None:
    got: list[bytes] = []
    session = MqttTransport(MqttSettings(HOST, broker.port))
    session.subscribe(f"new{qos}/#", lambda message: got.append(message.payload))
    client = old_client(f"late{qos}/#")
    async with running(session):
        client.client.publish(f"new{qos}/a", b"from old", qos, retain=True)
        await until(lambda: got == [b"from old"])
    late = old_client(f"new{qos}/#")
    await until(lambda: late.got == [(f"new{qos}/a", b"from old", True)])


async def test_the_will_of_an_old_client_is_sent_when_it_dies_and_not_when_it_leaves(
    broker: Embedded, old_client: Callable[..., OldClient]
) -> None:
    got: list[str] = []
    session = MqttTransport(MqttSettings(HOST, broker.port))
    session.subscribe("wills/#", lambda message: got.append(message.topic))
    leaving, dying = old_client("x", "wills/left"), old_client("x", "wills/died")
    await until(lambda: leaving.subscribed and dying.subscribed)
    async with running(session):
        leaving.stop()
        dying.client._sock.close()  # type: ignore[union-attr] # connected
        await until(lambda: len(got) > 0)
        await session.publish(Outgoing("wills/marker", b"", 1))
        await until(lambda: "wills/marker" in got)
    assert got == ["wills/died", "wills/marker"]


@pytest.mark.mosquitto
@pytest.mark.parametrize("version", ["mqttv5", "mqttv311"])
async def test_mosquitto_sub_reads_from_the_embedded_broker(broker: Embedded, mosquitto: str, version: str) -> None:
    program = shutil.which("mosquitto_sub")
    assert program is not None, "mosquitto_sub is missing beside mosquitto"
    port = broker.port if version == "mqttv5" else broker.port_v3
    command = [
        program,
        "-V",
        version,
        "-h",
        HOST,
        "-p",
        str(port),
        "-t",
        f"sub-{version}/+/result",
        "-C",
        "1",
        "-W",
        "20",
    ]
    session = MqttTransport(MqttSettings(HOST, broker.port))
    async with running(session):
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        reading = asyncio.ensure_future(process.communicate())
        while not reading.done():  # until it has subscribed
            await session.publish(Outgoing(f"sub-{version}/plaza/result", b'{"seq":1}'))
            await asyncio.sleep(0.05)
        assert (await reading)[0] == b'{"seq":1}\n'


async def test_bytes_that_are_no_mqtt_end_that_connection_alone(
    broker: Embedded, old_client: Callable[..., OldClient]
) -> None:
    for junk in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x10\xff\xff\xff\xff\xff",
        b"\x10\x0c\x00\x04MQTT\x05\x02\x00\x1e\x00\x00",
    ):
        reader, writer = await asyncio.open_connection(HOST, broker.port_v3)
        writer.write(junk)
        writer.write_eof()
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
    client = old_client("a")
    await until(lambda: client.subscribed)


LENGTHS = [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (16_383, b"\xff\x7f"), (2_097_152, b"\x80\x80\x80\x01")]


@pytest.mark.parametrize(("length", "encoded"), LENGTHS)
def test_lengths_are_written_as_the_specification_says(length: int, encoded: bytes) -> None:
    assert encode_length(length) == encoded


def test_a_connect_with_will_name_and_password_gets_its_properties_in_the_right_places() -> None:
    tail = b"\0\1w\0\1p" + b"\0\1u\0\1s"
    old = Packet(CONNECT, 0, b"\0\4MQTT\4\xc6\0\x1e" + b"\0\2id" + tail)
    assert up(old).body == b"\0\4MQTT\5\xc6\0\x1e" + b"\0" + b"\0\2id" + b"\0" + tail


def test_a_persistent_session_stays_persistent() -> None:
    assert up(Packet(CONNECT, 0, b"\0\4MQTT\4\0\0\x1e\0\2id")).body == (
        b"\0\4MQTT\5\0\0\x1e" + b"\5\x11\xff\xff\xff\xff" + b"\0\2id"
    )


@pytest.mark.parametrize(("code", "old"), [(0x00, 0), (0x85, 2), (0x86, 4), (0x87, 5), (0x97, 3)])
def test_refusals_become_the_old_codes(code: int, old: int) -> None:
    assert down(Packet(CONNACK, 0, bytes((1, code)) + b"\3\x22\0\1")) == Packet(CONNACK, 0, bytes((1, old)))


def test_a_refused_subscription_is_a_failure() -> None:
    assert down(Packet(SUBACK, 0, b"\0\1\0\1\x87")) == Packet(SUBACK, 0, b"\0\1\1\x80")


def test_the_broker_s_disconnect_has_no_old_form() -> None:
    assert down(Packet(DISCONNECT, 0, b"\x8e")) is None


@given(st.text(max_size=20), st.binary(max_size=300), st.sampled_from([0, 2, 4]), st.binary(max_size=200))
def test_a_publish_keeps_everything_but_its_properties(topic: str, payload: bytes, flags: int, extra: bytes) -> None:
    name = topic.encode("utf-8", "ignore")
    header = len(name).to_bytes(2, "big") + name + (b"\0\7" if flags else b"")
    plain = Packet(PUBLISH, flags, header + payload)
    assert down(up(plain)) == plain
    assert down(Packet(PUBLISH, flags, header + encode_length(len(extra)) + extra + payload)) == plain


@given(st.integers(0, 15), st.integers(0, 15), st.binary(max_size=60))
def test_any_packet_is_translated_or_refused(kind: int, flags: int, body: bytes) -> None:
    for translate in (up, down):
        try:
            result = translate(Packet(kind, flags, body))
        except BadPacketError:
            continue
        assert result is None or result.kind == kind


@given(st.integers(1, 15), st.integers(0, 15), st.binary(max_size=300))
def test_a_packet_that_was_written_is_read(kind: int, flags: int, body: bytes) -> None:
    async def main() -> Packet:
        reader = asyncio.StreamReader()
        reader.feed_data(Packet(kind, flags, body).encode())
        return await read_packet(reader, 1000)

    assert asyncio.run(main()) == Packet(kind, flags, body)


async def test_a_packet_over_the_limit_is_refused_before_it_is_read() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"\x30" + encode_length(1001))
    with pytest.raises(BadPacketError, match="1001 bytes"):
        await read_packet(reader, 1000)
