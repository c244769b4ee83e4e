"""The shaping relay on real sockets: what it passes on, when, and how much it takes in."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from foveate.shaper_child import MOST_CONNECTIONS, ShapingRelay
from pipeline.network.link import Epoch, Link, LinkSettings
from pipeline.network.rate import Capacity, constant, interrupted
from pipeline.timing import MonotonicClock
from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from tests.support.brokers import HOST, Embedded, free_port, quick_backoff, running, until

CLOCK = MonotonicClock()
QUICK = LinkSettings(constant(1e8), 0.001)


def links(up: Capacity, one_way_s: float = 0.0, down: Capacity | None = None) -> tuple[Link, Link]:
    epoch = Epoch()
    return Link(LinkSettings(up, one_way_s), 0, epoch), Link(LinkSettings(down or up, one_way_s), 1, epoch)


class Far:
    """A server behind a relay: keeps what it reads, and answers in capitals where told to."""

    def __init__(self, answers: bool = False) -> None:
        self.answers = answers
        self.got = bytearray()
        self.ended = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                self.got += data
                if self.answers:
                    writer.write(data.upper())
                    await writer.drain()
        self.ended.set()
        writer.close()


@dataclass
class Way:
    """A relay in this process: its port, and the links that it shapes by."""

    port: int
    relay: ShapingRelay


@contextlib.asynccontextmanager
async def relaying(port: int, shaped_by: tuple[Link, Link]) -> AsyncIterator[Way]:
    relay = ShapingRelay(HOST, port, shaped_by, CLOCK)
    server = await asyncio.start_server(relay.serve, HOST, 0, limit=16_384)
    async with server:
        yield Way(server.sockets[0].getsockname()[1], relay)
        server.close()
        await until(lambda: relay._connections == 0)


@contextlib.asynccontextmanager
async def behind(far: Far, shaped_by: tuple[Link, Link]) -> AsyncIterator[Way]:
    server = await asyncio.start_server(far.serve, HOST, 0)
    async with server, relaying(server.sockets[0].getsockname()[1], shaped_by) as way:
        yield way
        for writer in far.writers:
            writer.close()


async def test_bytes_pass_both_ways_unharmed_and_in_order() -> None:
    far = Far(answers=True)
    sent = os.urandom(1_000_000).lower()
    async with behind(far, (Link(QUICK, 0), Link(QUICK, 1))) as way:
        reader, writer = await asyncio.open_connection(HOST, way.port)
        writer.write(sent)
        answer = await asyncio.wait_for(reader.readexactly(len(sent)), 20)
        writer.close()
    assert bytes(far.got) == sent
    assert answer == sent.upper()


async def test_a_round_trip_takes_the_way_up_and_the_way_down() -> None:
    async with behind(Far(answers=True), links(constant(1e7), 0.05)) as way:
        reader, writer = await asyncio.open_connection(HOST, way.port)
        for _ in range(3):
            began_s = CLOCK.now_s()
            writer.write(b"ping")
            await reader.readexactly(4)
            assert CLOCK.now_s() - began_s >= 0.1
        writer.close()


async def test_many_bytes_take_as_long_as_the_rate_of_the_link_says() -> None:
    far = Far()
    async with behind(far, links(constant(200_000.0))) as way:
        _, writer = await asyncio.open_connection(HOST, way.port)
        began_s = CLOCK.now_s()
        writer.write(bytes(100_000))
        await until(lambda: len(far.got) == 100_000)
        assert CLOCK.now_s() - began_s >= 0.45  # half a second, less what may pass at once
        writer.close()


async def test_a_slow_link_takes_in_little_and_leaves_the_rest_with_the_sender() -> None:
    far = Far()
    async with behind(far, links(constant(1000.0))) as way:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)
            sock.settimeout(0)
            await asyncio.get_running_loop().sock_connect(sock, (HOST, way.port))
            taken, refused = 0, 0
            while refused < 25:
                try:
                    taken += sock.send(bytes(16_384))
                except BlockingIOError:
                    refused += 1
                    await asyncio.sleep(0.02)
            assert 64 * 1024 < taken < 512 * 1024


async def test_the_end_of_one_side_reaches_the_other_after_what_was_sent_before_it() -> None:
    far = Far()
    async with behind(far, links(constant(1e6), 0.05)) as way:
        _, writer = await asyncio.open_connection(HOST, way.port)
        writer.write(bytes(50_000))
        writer.close()
        await asyncio.wait_for(far.ended.wait(), 10)
        assert len(far.got) == 50_000


async def test_a_far_side_that_ends_ends_the_near_one() -> None:
    far = Far()
    async with behind(far, links(constant(1e6), 0.01)) as way:
        reader, writer = await asyncio.open_connection(HOST, way.port)
        writer.write(b"x")
        await until(lambda: bool(far.got))
        far.writers[0].write(b"bye")
        far.writers[0].close()
        assert await asyncio.wait_for(reader.read(), 10) == b"bye"
        writer.close()


async def test_an_abrupt_end_is_passed_on() -> None:
    far = Far()
    async with behind(far, links(constant(1e6), 0.01)) as way:
        _, writer = await asyncio.open_connection(HOST, way.port)
        writer.write(b"x")
        await until(lambda: bool(far.got))
        writer.transport.abort()
        await asyncio.wait_for(far.ended.wait(), 10)


async def turned_away(way: Way) -> None:
    reader, writer = await asyncio.open_connection(HOST, way.port)
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_where_no_broker_is_the_connection_ends_and_each_absence_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    far, port = Far(), free_port()
    async with relaying(port, links(constant(1e6))) as way:
        for absence in (1, 2):
            for _ in range(3):
                await turned_away(way)
            assert ["cannot be reached" in record.getMessage() for record in caplog.records] == [True] * absence
            async with await asyncio.start_server(far.serve, HOST, port):
                _, writer = await asyncio.open_connection(HOST, way.port)
                await until(lambda: len(far.writers) == absence)  # noqa: B023 - called before it changes
                writer.close()


async def test_more_connections_than_there_is_room_for_are_turned_away() -> None:
    far = Far()
    async with behind(far, links(constant(1e6))) as way:
        held = [await asyncio.open_connection(HOST, way.port) for _ in range(MOST_CONNECTIONS)]
        await until(lambda: len(far.writers) == MOST_CONNECTIONS)
        reader, writer = await asyncio.open_connection(HOST, way.port)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        for _, one in held:
            one.close()
        writer.close()


async def test_in_an_outage_nothing_passes_to_a_real_broker_and_the_return_brings_what_waited() -> None:
    broker = Embedded()
    with broker:
        epoch = Epoch(CLOCK.now_s())
        outage = (2.0, 3.5)
        up, down = (Link(LinkSettings(interrupted([(0.0, 1e7)], [outage]), 0.01), n, epoch) for n in range(2))
        async with relaying(broker.port, (up, down)) as way:
            heard: list[tuple[float, bytes]] = []

            def hear(message: Message) -> None:
                heard.append((CLOCK.now_s() - epoch.at_s(0.0), message.payload))

            agent = MqttTransport(MqttSettings(HOST, way.port), backoff=quick_backoff())
            worker = MqttTransport(MqttSettings(HOST, broker.port), backoff=quick_backoff())
            worker.subscribe("req", hear)
            async with running(agent, worker):
                for number in range(45):
                    assert await agent.publish(Outgoing("req", b"%d" % number)) is PublishStatus.SENT
                    await asyncio.sleep(0.1)
                await until(lambda: len(heard) == 45)
                assert agent.state.connects == 1
    assert [payload for _, payload in heard] == [b"%d" % number for number in range(45)]
    # What had left the link before the outage may still have been read a moment later.
    assert not [at_s for at_s, _ in heard if outage[0] + 0.5 < at_s < outage[1]]
    assert any(at_s > outage[1] for at_s, _ in heard)
