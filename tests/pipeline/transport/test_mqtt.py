"""What only the MQTT session does: sockets, back-pressure, refusals, TLS, and what it says about each end."""

import asyncio
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.transport.backoff import Backoff
from pipeline.transport.base import Outgoing, PublishStatus
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.mqtt_link import MqttLink
from pipeline.transport.settings import MqttSettings, TlsSettings
from tests.support.brokers import HOST, Embedded, Mosquitto, cut, quick_backoff, running, until

CONNACK = b"\x20\x03\x00\x00\x00"
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    with Embedded() as broker:
        assert isinstance(broker, Embedded)
        yield broker


class Scripted:
    """A server that answers as a script says; stands for brokers that behave badly."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.connections = 0
        self.port = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._script(reader, writer)
        finally:
            writer.close()

    async def __aenter__(self) -> "Scripted":
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()


def settings(port: int) -> MqttSettings:
    return MqttSettings(HOST, port, ack_timeout_s=2.0)


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_socket_has_tcp_nodelay(embedded: Embedded) -> None:
    session = MqttTransport(settings(embedded.port))
    async with running(session):
        assert session._link is not None
        sock = session._link._paho.socket()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_client_ids_are_unique_unless_one_is_given() -> None:
    assert len({MqttTransport(settings(1)).client_id for _ in range(100)}) == 100
    assert MqttTransport(replace(settings(1), client_id="mine")).client_id == "mine"


async def test_a_link_that_does_not_move_is_told_as_backlog_and_memory_stays_flat() -> None:
    """The broker stops reading: what the client holds, kernel buffers included, stays under the limit."""
    stuck = asyncio.Event()

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await reader.readexactly(2)
        writer.write(CONNACK)
        await stuck.wait()

    async with Scripted(stall) as server:
        session = MqttTransport(settings(server.port))
        async with running(session):
            statuses = [await session.publish(Outgoing("a", bytes(60_000))) for _ in range(4)]
            assert statuses[0] is PublishStatus.SENT
            for _ in range(200):
                await asyncio.sleep(0)
                statuses.append(await session.publish(Outgoing("a", bytes(60_000))))
            assert statuses[-1] is PublishStatus.BACKLOG
            assert session._link is not None
            assert session._link.backlog_bytes() <= settings(0).backlog_bytes + 1024
        stuck.set()


async def test_a_message_larger_than_the_backlog_limit_still_goes_over_an_idle_link(embedded: Embedded) -> None:
    session = MqttTransport(replace(settings(embedded.port), backlog_bytes=1000))
    async with running(session):
        assert await session.publish(Outgoing("a", bytes(50_000), 1)) is PublishStatus.SENT
        assert await session.publish(Outgoing("a", bytes(50_000), 1)) is PublishStatus.SENT


async def test_a_message_is_written_at_once_and_the_socket_is_not_watched_for_nothing_afterwards(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = MqttTransport(settings(embedded.port))
    async with running(session):
        link = session._link
        assert link is not None
        await session.publish(Outgoing("foveate/small", b"x"))
        assert not link._paho.want_write()
        writes: list[None] = []
        monkeypatch.setattr(link._paho, "loop_write", lambda: writes.append(None))
        await asyncio.sleep(0.1)
        assert len(writes) == 0


async def test_what_the_socket_does_not_take_at_once_follows_when_it_does(embedded: Embedded) -> None:
    got: list[bytes] = []
    sender, receiver = MqttTransport(settings(embedded.port)), MqttTransport(settings(embedded.port))
    receiver.subscribe("foveate/large", lambda message: got.append(message.payload))
    async with running(sender, receiver):
        link, payload = sender._link, bytes(6 * 1024 * 1024)
        assert link is not None
        link._paho.socket().setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        await sender.publish(Outgoing("foveate/large", payload))
        assert link._paho.want_write()
        await until(lambda: len(got) == 1)
        assert got == [payload]
        assert not link._paho.want_write()


async def test_a_session_taken_over_says_so() -> None:
    async def take_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        writer.write(CONNACK + b"\xe0\x01\x8e")
        await writer.drain()

    async with Scripted(take_over) as server:
        session = MqttTransport(replace(settings(server.port), client_id="twin"), backoff=Backoff(20, 20))
        task = asyncio.ensure_future(session.run())
        await until(lambda: "taken over" in session.state.reason)
        assert "'twin'" in session.state.reason
        await stopped(task)


async def test_a_lost_connection_has_its_reason_also_while_it_still_closes(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, closes, go = MqttTransport(MqttSettings(HOST, embedded.port)), asyncio.Event(), asyncio.Event()
    close = MqttLink.close

    async def slowly(link: MqttLink) -> None:
        closes.set()
        await go.wait()
        await close(link)

    monkeypatch.setattr(MqttLink, "close", slowly)
    async with running(session):
        cut(session)
        await closes.wait()
        assert not session.state.connected
        assert session.state.reason
        go.set()


async def test_the_reason_names_the_broker_and_the_cause(unused_port: int) -> None:
    session = MqttTransport(settings(unused_port), backoff=quick_backoff())
    task = asyncio.ensure_future(session.run())
    await until(lambda: "cannot be reached" in session.state.reason)
    assert f"{HOST}:{unused_port}" in session.state.reason
    assert "refused" in session.state.reason
    await stopped(task)


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


async def test_a_broker_that_accepts_and_never_answers_costs_no_sockets() -> None:
    silent = asyncio.Event()

    async def hold(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await silent.wait()

    def open_here() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async with Scripted(hold) as server:
        session = MqttTransport(replace(settings(server.port), ack_timeout_s=0.05), backoff=quick_backoff())
        task = asyncio.ensure_future(session.run())
        await until(lambda: "no answer" in session.state.reason)
        await until(lambda: server.connections >= 3)
        before, tasks = open_here() - server.connections, len(asyncio.all_tasks()) - server.connections
        await until(lambda: server.connections >= 10)
        # the server keeps one socket and one task for each connection; the client at most one of each for the current
        assert open_here() - server.connections <= before + 2
        assert len(asyncio.all_tasks()) - server.connections <= tasks + 2
        await stopped(task)
        silent.set()


async def test_a_relay_without_a_broker_behind_it_is_told_at_once() -> None:
    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1000)

    async with Scripted(hang_up) as server:
        session = MqttTransport(replace(settings(server.port), ack_timeout_s=600.0), backoff=quick_backoff())
        task = asyncio.ensure_future(session.run())
        await until(lambda: server.connections >= 3)
        expected = f"{HOST}:{server.port} cannot be reached: it closed the connection without an answer"
        assert session.state.reason == expected
        await stopped(task)


async def test_a_stop_while_connecting_leaves_no_connection_behind() -> None:
    closed = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        closed.set()

    async with Scripted(hold) as server:
        task = asyncio.ensure_future(MqttTransport(settings(server.port)).run())
        await until(lambda: server.connections == 1)
        await stopped(task)
        async with asyncio.timeout(5):
            await closed.wait()


async def test_a_qos_1_publish_whose_connection_is_lost_is_not_connected() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        writer.write(CONNACK)
        await reader.readuntil(b"payload")

    async with Scripted(hang_up) as server:
        session = MqttTransport(replace(settings(server.port), ack_timeout_s=60), backoff=Backoff(20, 20))
        async with running(session), asyncio.timeout(5):
            assert await session.publish(Outgoing("a", b"payload", 1)) is PublishStatus.NOT_CONNECTED


async def test_a_refused_subscription_is_told_and_not_tried_again_soon() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        writer.write(CONNACK)
        await reader.readuntil(b"a/b")
        writer.write(b"\x90\x04\x00\x01\x00\x87")
        await reader.read(1000)

    async with Scripted(refuse) as server:
        session = MqttTransport(settings(server.port), backoff=quick_backoff())
        session.subscribe("a/b", lambda _: None)
        task = asyncio.ensure_future(session.run())
        await until(lambda: "refused the subscription to 'a/b': Not authorized" in session.state.reason)
        await stopped(task)


async def test_subscribing_while_running_is_a_mistake(embedded: Embedded) -> None:
    session = MqttTransport(settings(embedded.port))
    async with running(session):
        with pytest.raises(RuntimeError, match="before run"):
            session.subscribe("a", lambda _: None)


@pytest.mark.parametrize(
    "outgoing",
    [
        Outgoing("a", b"", response_topic="b/#"),
        Outgoing("a", b"", response_topic=""),
        Outgoing("a", b"", correlation=bytes(65_536)),
        Outgoing("a", b"", properties={"k": "x" * 65_536}),
        Outgoing("a", b"", properties={"k": "\ud800"}),
        Outgoing("a", b"", qos=3),
        Outgoing("a", b"", expiry_s=-1),
        Outgoing("a", b"", expiry_s=2**32),
    ],
)
async def test_what_mqtt_cannot_carry_is_refused_before_it_is_sent(embedded: Embedded, outgoing: Outgoing) -> None:
    session = MqttTransport(settings(embedded.port))
    async with running(session):
        assert await session.publish(outgoing) is PublishStatus.REFUSED
        assert await session.publish(Outgoing("a", b"", 1)) is PublishStatus.SENT
    assert session.state.connects == 1


@pytest.mark.mosquitto
async def test_the_broker_s_own_packet_limit_is_respected(mosquitto: str) -> None:
    broker = Mosquitto(mosquitto, "max_packet_size 20000")
    broker.start()
    session = MqttTransport(settings(broker.port))
    async with running(session):
        assert await session.publish(Outgoing("a", bytes(20_000))) is PublishStatus.REFUSED
        assert await session.publish(Outgoing("a", bytes(10_000), 1)) is PublishStatus.SENT
    assert session.state.connects == 1
    broker.stop()


@pytest.mark.mosquitto
async def test_a_wrong_password_is_told_and_a_right_one_works(mosquitto: str, public_folder: Path) -> None:
    passwords = public_folder / "passwords"
    subprocess.run(["mosquitto_passwd", "-c", "-b", str(passwords), "ann", "S3cr&t/Ü"], check=True)  # noqa: ASYNC221 - short
    passwords.chmod(0o644)
    broker = Mosquitto(mosquitto, f"allow_anonymous false\npassword_file {passwords}")
    broker.start()
    wrong = MqttTransport(replace(settings(broker.port), username="ann", password="secret"))
    right = MqttTransport(replace(settings(broker.port), username="ann", password="S3cr&t/Ü"))
    task = asyncio.ensure_future(wrong.run())
    async with running(right):
        await until(lambda: "refused the connection: Not authorized" in wrong.state.reason)
        assert "secret" not in wrong.state.reason
    await stopped(task)
    broker.stop()


@pytest.mark.mosquitto
async def test_tls_verifies_the_name_of_the_broker_and_a_server_name_can_be_set(
    mosquitto: str, authority: Callable[[str, int], Path]
) -> None:
    """The certificate is for broker.test; the broker is dialled by its address."""
    files, strangers = authority("broker.test", 2), authority("broker.test", 3)
    broker = Mosquitto(mosquitto, f"certfile {files}/cert.pem\nkeyfile {files}/key.pem")
    broker.start()

    def session(ca: Path, server_name: str | None) -> MqttTransport:
        tls = TlsSettings(ca_file=str(ca / "ca.pem"), server_name=server_name)
        return MqttTransport(replace(settings(broker.port), tls=tls))

    right, wrong_name, wrong_ca = session(files, "broker.test"), session(files, None), session(strangers, "broker.test")
    got = asyncio.Event()
    right.subscribe("a", lambda _: got.set())
    tasks = [asyncio.ensure_future(one.run()) for one in (wrong_name, wrong_ca)]
    async with running(right), asyncio.timeout(10):
        await right.publish(Outgoing("a", bytes(300_000)))
        await got.wait()
        await until(lambda: all("tls_error" in one.state.reason for one in (wrong_name, wrong_ca)))
    assert "IP address mismatch" in wrong_name.state.reason
    assert f"'{HOST}'" in wrong_name.state.reason
    assert "signature failure" in wrong_ca.state.reason or "issuer" in wrong_ca.state.reason
    for task in tasks:
        await stopped(task)
    broker.stop()


@pytest.mark.mosquitto
async def test_an_expired_certificate_is_told(mosquitto: str, authority: Callable[[str, int], Path]) -> None:
    files = authority("broker.test", -1)
    broker = Mosquitto(mosquitto, f"certfile {files}/cert.pem\nkeyfile {files}/key.pem")
    broker.start()
    tls = TlsSettings(ca_file=str(files / "ca.pem"), server_name="broker.test")
    session = MqttTransport(replace(settings(broker.port), tls=tls))
    task = asyncio.ensure_future(session.run())
    await until(lambda: "expired" in session.state.reason)
    await stopped(task)
    broker.stop()


@pytest.mark.parametrize("content", [None, "not a certificate"])
async def test_tls_files_that_cannot_be_used_are_a_configuration_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    session = MqttTransport(replace(settings(1), tls=TlsSettings(ca_file=str(path))))
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        await session.run()
