"""Two workers on one shared subscription of a real broker, and what becomes of the share of one that dies.

Case D10.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from cloud_worker.announce import offline
from cloud_worker.service import WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from pipeline.timing import MonotonicClock
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from pipeline.wire.codec import decode_reply, encode_request
from pipeline.wire.messages import Reply
from tests.support.brokers import HOST, Embedded, Mosquitto, cut, quick_backoff, until
from tests.support.detectors import ScriptedDetector, grey_picture, jpeg_of
from tests.support.workers import make_request

REQUESTS, KILLED_AT, GAP_S = 200, 100, 0.005
DAY_S = 86_400
TOPIC = topics.request("cloud", "m")
SHARE = topics.request_share("workers", "cloud", "m")


@pytest.fixture(params=["embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    if request.param == "embedded":
        broker: Embedded | Mosquitto = Embedded()
    else:
        broker = Mosquitto(request.getfixturevalue("mosquitto"))
    broker.start()
    yield broker.port
    broker.stop()


class Asker:
    """Sends numbered requests and collects the replies, in the order in which they come."""

    def __init__(self, port: int) -> None:
        self.session = MqttTransport(MqttSettings(HOST, port))
        self.replies: list[Reply] = []
        self.session.subscribe(topics.reply("a1"), self._on_reply)

    def _on_reply(self, message: Message) -> None:
        reply = decode_reply(message.payload)
        assert isinstance(reply, Reply)
        assert message.correlation == str(reply.seq).encode()
        self.replies.append(reply)

    async def ask(self, number: int) -> None:
        payload = encode_request(make_request(number), jpeg_of(grey_picture(80)))
        correlation = str(number).encode()
        await self.session.publish(
            Outgoing(TOPIC, payload, response_topic=topics.reply("a1"), correlation=correlation, expiry_s=1)
        )

    def answered_by(self, worker: str) -> set[int]:
        return {reply.seq for reply in self.replies if reply.worker == worker}


class Worker:
    """A worker in this process whose session can be killed: its socket closes without a goodbye."""

    def __init__(self, port: int, name: str) -> None:
        settings = WorkerSettings(models=(ServedModel("m"),), worker=name, coalesce=False, cache_ttl_s=0.0)
        self.session = MqttTransport(
            MqttSettings(HOST, port, client_id=name, ack_timeout_s=1.0), will=offline(name), backoff=quick_backoff()
        )
        self.service = WorkerService(settings, {"m": ScriptedDetector()}, self.session, MonotonicClock())
        self.task = asyncio.create_task(self.service.run())

    async def kill(self) -> None:
        cut(self.session)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def stop(self) -> None:
        self.service.stop()
        await asyncio.gather(self.task, return_exceptions=True)


@contextlib.asynccontextmanager
async def asking(port: int) -> AsyncIterator[Asker]:
    asker = Asker(port)
    running = asyncio.create_task(asker.session.run())
    await asker.session.wait_connected()
    try:
        yield asker
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_of_two_workers_the_other_takes_all_from_the_moment_that_one_is_killed(port: int) -> None:
    async with asking(port) as asker:
        first, second = Worker(port, "w1"), Worker(port, "w2")
        for each in (first, second):
            await each.session.wait_connected()
        for number in range(REQUESTS):
            if number == KILLED_AT:
                await first.kill()
                await asyncio.sleep(0.1)  # until the broker has seen it
            await asker.ask(number)
            await asyncio.sleep(GAP_S)
        await until(lambda: asker.answered_by("w2") >= set(range(KILLED_AT, REQUESTS)))
        before = {number for number in range(KILLED_AT) if number in {reply.seq for reply in asker.replies}}
        assert min(len(asker.answered_by("w1")), len(asker.answered_by("w2") & before)) >= KILLED_AT // 4
        assert len(before) >= KILLED_AT - 8, "only what was under way at the dead worker is lost"
        assert len({reply.seq for reply in asker.replies}) == len(asker.replies), "and nothing is answered twice"
        await second.stop()


async def test_a_worker_that_comes_back_has_no_share_kept_from_its_former_life(port: int) -> None:
    """Clean start, and no session expiry: what was asked while nobody was there has met its deadline at the edge."""
    async with asking(port) as asker:
        former = Worker(port, "w1")
        await former.session.wait_connected()
        await asker.ask(0)
        await until(lambda: asker.answered_by("w1") == {0})
        await former.kill()
        await asyncio.sleep(0.1)
        for number in range(1, 20):
            await asker.ask(number)
        again = Worker(port, "w1")
        await again.session.wait_connected()
        await asker.ask(100)
        await until(lambda: 100 in asker.answered_by("w1"))
        await asyncio.sleep(0.2)
        assert asker.answered_by("w1") == {0, 100}
        assert again.service.statistics().received == 1
        await again.stop()


async def test_a_foreign_worker_that_is_killed_and_keeps_its_session_costs_its_share_and_no_more(port: int) -> None:
    """One that asks the broker to keep its session for a day: its share may be lost while the broker does so."""
    expiry: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    expiry.SessionExpiryInterval = DAY_S
    foreign = aiomqtt.Client(
        HOST, port, identifier="foreign", protocol=aiomqtt.ProtocolVersion.V5, clean_start=False, properties=expiry
    )
    async with asking(port) as asker:
        ours = Worker(port, "w2")
        await ours.session.wait_connected()
        await foreign.__aenter__()
        await foreign.subscribe(SHARE)
        for number in range(REQUESTS):
            if number == KILLED_AT:
                connection: Any = foreign._client.socket()
                connection.shutdown(socket.SHUT_RDWR)
                await asyncio.sleep(0.1)
            await asker.ask(number)
            await asyncio.sleep(GAP_S)
        await asyncio.sleep(0.3)
        answered = asker.answered_by("w2")
        assert len(answered) == len(asker.replies)
        later = {number for number in answered if number >= KILLED_AT}
        assert len(later) >= (REQUESTS - KILLED_AT) // 2 - 5, "never more than the share of the dead one is lost"
        assert answered & {*range(REQUESTS - 4, REQUESTS)}, "and ours goes on to the end"
        await ours.stop()
    foreign.timeout = 0.1
    with contextlib.suppress(aiomqtt.MqttError):
        await foreign.__aexit__(None, None, None)
    if foreign._disconnected.done():
        foreign._disconnected.exception()  # marks it as seen
