"""The network shaper as a child process between an agent and a real broker."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from foveate.plan import NetworkSettings
from foveate.shaper import NetworkShaper
from pipeline.timing import MonotonicClock
from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings, TlsSettings
from tests.support.brokers import HOST, Embedded, Mosquitto, free_port, quick_backoff, running, until
from tests.support.processes import assert_ends_with_its_parent

CLOCK = MonotonicClock()


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    started = Embedded()
    with started:
        yield started


@pytest.fixture
def steady(tmp_path: Path) -> NetworkSettings:
    """12 Mbit/s both ways and a round trip of 60 ms, without chance."""
    trace = tmp_path / "trace"
    trace.write_text("1\n")
    return NetworkSettings(f"mahimahi:{trace},{trace}")


@pytest.fixture
def shaper(broker: Embedded, steady: NetworkSettings) -> Iterator[NetworkShaper]:
    made = NetworkShaper(steady, MqttSettings(HOST, broker.port))
    made.start()
    yield made
    made.stop()


def sessions(shaper: NetworkShaper, broker: Embedded) -> tuple[MqttTransport, MqttTransport, list[bytes]]:
    """An agent's session through the shaper, a worker's without that answers it, and the answers."""
    agent = MqttTransport(shaper.settings(), backoff=quick_backoff())
    worker = MqttTransport(MqttSettings(HOST, broker.port), backoff=quick_backoff())
    replies: set[asyncio.Task[PublishStatus]] = set()
    answers: list[bytes] = []

    def serve(message: Message) -> None:
        replies.add(asyncio.ensure_future(worker.publish(Outgoing("rep", message.payload[:10]))))

    worker.subscribe("req", serve)
    agent.subscribe("rep", lambda message: answers.append(message.payload))
    return agent, worker, answers


async def asked(agent: MqttTransport, answers: list[bytes], payload: bytes) -> float:
    """Seconds that a question and its answer take."""
    answers.clear()
    began_s = CLOCK.now_s()
    assert await agent.publish(Outgoing("req", payload)) is PublishStatus.SENT
    await until(lambda: bool(answers))
    return CLOCK.now_s() - began_s


async def test_a_question_and_its_answer_take_at_least_the_round_trip(shaper: NetworkShaper, broker: Embedded) -> None:
    agent, worker, answers = sessions(shaper, broker)
    async with running(agent, worker):
        assert min([await asked(agent, answers, b"small") for _ in range(5)]) >= 0.06
        # 150 kB at 12 Mbit/s are 100 ms.
        assert min([await asked(agent, answers, bytes(150_000)) for _ in range(3)]) >= 0.16


async def test_a_shaper_that_was_killed_comes_back_at_the_same_port(shaper: NetworkShaper, broker: Embedded) -> None:
    agent, worker, answers = sessions(shaper, broker)
    before = shaper.settings()
    async with running(agent, worker):
        await asked(agent, answers, b"x")
        assert shaper.pid is not None
        os.kill(shaper.pid, signal.SIGKILL)
        await until(lambda: shaper.pid is None)
        await asyncio.to_thread(shaper.start)
        assert shaper.settings() == before
        await until(lambda: agent.state.connects == 2)
        await agent.wait_connected()
        await asked(agent, answers, b"x")


def test_it_listens_on_this_machine_alone_and_leaves_neither_process_nor_port(shaper: NetworkShaper) -> None:
    port, pid = shaper.settings().port, shaper.pid
    assert shaper.settings().host == HOST
    assert pid is not None
    shaper.stop()
    shaper.stop()  # twice does no harm
    assert not psutil.pid_exists(pid)
    with socket.socket() as probe:
        assert probe.connect_ex((HOST, port)) != 0


def test_it_has_no_address_before_it_has_started(steady: NetworkSettings) -> None:
    with pytest.raises(RuntimeError, match="no address"):
        NetworkShaper(steady, MqttSettings(HOST, 1883)).settings()


def test_it_ends_when_its_parent_is_killed(steady: NetworkSettings) -> None:
    script = f"""
import sys
from foveate.plan import NetworkSettings
from foveate.shaper import NetworkShaper
from pipeline.transport.settings import MqttSettings
shaper = NetworkShaper(NetworkSettings({steady.profile!r}), MqttSettings({HOST!r}, {free_port()}))
shaper.start()
print(shaper.pid, flush=True)
sys.stdin.read()
"""
    assert_ends_with_its_parent(script)


def test_a_trace_that_has_gone_since_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    shaper = NetworkShaper(NetworkSettings("mahimahi:/absent"), MqttSettings(HOST, free_port()))
    shaper.start()
    assert shaper._process is not None
    assert shaper._process.wait(30) == 2
    shaper.stop()
    said = capfd.readouterr().err
    assert said.startswith("network: The network trace /absent cannot be used: it cannot be read")
    assert said.count("\n") == 1


@pytest.mark.parametrize(("given", "expected"), [(None, "broker.example"), ("other.example", "other.example")])
def test_tls_expects_the_brokers_own_name_and_all_else_stays(
    steady: NetworkSettings, given: str | None, expected: str
) -> None:
    mqtt = MqttSettings("broker.example", 8883, "user", "secret", TlsSettings(ca_file="ca.pem", server_name=given))
    shaper = NetworkShaper(steady, mqtt)
    shaper.start()
    try:
        through = shaper.settings()
    finally:
        shaper.stop()
    assert through == replace(
        mqtt, host=HOST, port=through.port, tls=TlsSettings(ca_file="ca.pem", server_name=expected)
    )


@pytest.mark.mosquitto
async def test_tls_to_the_broker_goes_through_and_is_verified(
    steady: NetworkSettings, mosquitto: str, authority: Callable[[str, int], Path]
) -> None:
    files, strangers = authority("localhost", 2), authority("localhost", 3)
    broker = Mosquitto(mosquitto, f"certfile {files}/cert.pem\nkeyfile {files}/key.pem")
    broker.start()

    def made(ca: Path) -> NetworkShaper:
        return NetworkShaper(steady, MqttSettings("localhost", broker.port, tls=TlsSettings(str(ca / "ca.pem"))))

    right, wrong = made(files), made(strangers)
    right.start()
    wrong.start()
    try:
        session, refused = (MqttTransport(one.settings(), backoff=quick_backoff()) for one in (right, wrong))
        got: list[bytes] = []
        session.subscribe("a", lambda message: got.append(message.payload))
        trying = asyncio.ensure_future(refused.run())
        async with running(session):
            await session.publish(Outgoing("a", bytes(100_000)))
            await until(lambda: got == [bytes(100_000)])
            await until(lambda: "tls_error" in refused.state.reason)
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
    finally:
        right.stop()
        wrong.stop()
        broker.stop()
