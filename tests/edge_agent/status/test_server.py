import asyncio
import logging
import signal
import socket
from typing import Any
from urllib.parse import quote

import pytest

import edge_agent.status.server as server_module
from edge_agent.status.access import AccessSettings
from edge_agent.status.app import create_app
from edge_agent.status.server import _EmbeddedServer, serve
from pipeline.errors import BrokerError, ConfigError
from pipeline.timing import MonotonicClock
from tests.support.browser import serving
from tests.support.status_samples import FakeStatusSource, agent, camera

PATIENCE_S = 20


async def request(port: int, target: str, *headers: str) -> bytes:
    """One request over a connection of its own; the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def big_picture_source() -> FakeStatusSource:
    """More bytes than the sockets hold, so that a viewer who does not read is stuck."""
    source = FakeStatusSource()
    source.pictures["plaza"] = 1, bytes(30_000_000)
    return source


async def test_it_serves_inside_the_running_loop_and_leaves_signals_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with serving(FakeStatusSource()) as port:
        answer = await request(port, "/healthz")
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"server:" not in answer.lower()


async def test_the_port_is_free_again_after_a_stop() -> None:
    async with serving(FakeStatusSource()) as port:
        await request(port, "/api/status")
    async with serving(FakeStatusSource(), port=port) as again:
        assert again == port
        assert (await request(port, "/healthz")).startswith(b"HTTP/1.1 200")


async def test_a_stop_waits_for_no_viewer() -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with serving(big_picture_source()) as port:
            idle = await asyncio.open_connection("127.0.0.1", port)
            half = await asyncio.open_connection("127.0.0.1", port)
            half[1].write(b"GET / HT")
            stuck = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            stuck[1].write(f"GET /api/cameras/plaza/picture.jpg HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
            assert (await stuck[0].readline()).startswith(b"HTTP/1.1 200")
            assert (await request(port, "/healthz")).startswith(b"HTTP/1.1 200")
        for reader, writer in (idle, half, stuck):
            with pytest.raises(ConnectionError):
                await read_to_the_end(reader)
            writer.close()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def read_to_the_end(reader: asyncio.StreamReader) -> None:
    """Raises ConnectionError when the other side closes or aborts the connection."""
    while await reader.read(1 << 20):
        pass
    raise ConnectionError("closed")


async def test_a_connection_on_which_no_whole_request_comes_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_IDLE_S", 0.05)
    async with serving(FakeStatusSource()) as port, asyncio.timeout(PATIENCE_S):
        for start in (b"", b"GET / HTTP/1.1\r\nHost: local"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(start)
            assert await reader.read() == b""
            writer.close()


async def test_thirty_viewers_who_vanish_leave_nothing_behind() -> None:
    source = big_picture_source()
    async with serving(source) as port, asyncio.timeout(PATIENCE_S):
        before = len(asyncio.all_tasks())
        for n in range(30):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET /api/cameras/plaza/picture.jpg HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
            await writer.drain()
            if n % 2:
                writer.transport.abort()
            else:
                writer.close()
        while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - uvicorn tells nobody when a task ends
            await asyncio.sleep(0)
        assert (await request(port, "/api/status")).startswith(b"HTTP/1.1 200")


async def test_a_port_in_use_is_one_sentence_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=f"^port {port} on 127.0.0.1 for the status page is in use") as raised:
            await serve(create_app(FakeStatusSource(), AccessSettings()), "127.0.0.1", port)
    assert raised.value.exit_code == 4
    assert "choose another port" in str(raised.value)


@pytest.mark.parametrize("port", [-1, 65_536])
async def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=f"port is {port}: it must be between 0 and 65535"):
        await serve(create_app(FakeStatusSource(), AccessSettings()), "127.0.0.1", port)


async def test_a_host_that_is_none_of_this_machine_is_refused() -> None:
    app = create_app(FakeStatusSource(), AccessSettings(token="secret"))
    with pytest.raises(BrokerError, match=r"cannot bind 192\.0\.2\.9 port 0, which is no address of this machine"):
        await serve(app, "192.0.2.9", 0)
    with pytest.raises(ConfigError, match=r"host 'cam\.\.lan' is unknown"):
        await serve(app, "cam..lan", 0)


async def test_another_host_than_the_one_that_was_checked_needs_the_token_too() -> None:
    with pytest.raises(ConfigError, match="without a token"):
        await serve(create_app(FakeStatusSource(), AccessSettings()), "0.0.0.0", 0)


async def test_more_connections_than_the_limit_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MOST_CONNECTIONS", 3)
    async with serving(FakeStatusSource()) as port:
        others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert (await request(port, "/api/status")).startswith(b"HTTP/1.1 503")
        for _, writer in others:
            writer.close()


async def test_the_token_is_written_to_no_log(caplog: pytest.LogCaptureFixture) -> None:
    token = "S3cr&t/Ü"
    caplog.set_level(logging.DEBUG)
    async with serving(FakeStatusSource(), AccessSettings(token=token)) as port:
        entered = await request(port, f"/?token={quote(token, safe='')}")
        assert entered.startswith(b"HTTP/1.1 303")
        assert (await request(port, "/api/status", f"Authorization: Bearer {token}")).startswith(b"HTTP/1.1 200")
        await request(port, f"/?token={quote(token, safe='')}x")
    assert not [record for record in caplog.records if "S3cr" in record.getMessage()]


async def test_requests_that_are_no_http_do_no_harm() -> None:
    async with serving(FakeStatusSource(agent(cameras=[camera()]))) as port, asyncio.timeout(PATIENCE_S):
        for nonsense in (b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"A" * 100_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(nonsense + b"\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 4")
            writer.close()
        assert (await request(port, "/api/status")).startswith(b"HTTP/1.1 200")


async def test_a_viewer_that_reads_nothing_is_given_no_more_than_fits_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case E05: there is no stream to viewers. One that asks a thousand times and reads nothing has one answer held."""
    source, clock = FakeStatusSource(), MonotonicClock()
    source.pictures["plaza"] = 1, bytes(2_000_000)
    servers: list[_EmbeddedServer] = []
    made = _EmbeddedServer.__init__

    def note(self: _EmbeddedServer, *arguments: Any) -> None:
        servers.append(self)
        made(self, *arguments)

    monkeypatch.setattr(_EmbeddedServer, "__init__", note)
    async with serving(source) as port, asyncio.timeout(PATIENCE_S):
        _, stuck = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        stuck.transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's own transports have it
        one = f"GET /api/cameras/plaza/picture.jpg HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode()
        stuck.write(one * 1000)
        waited_s, held_bytes = list[float](), 0
        for _ in range(40):
            began_s = clock.now_s()
            assert (await request(port, "/api/status")).startswith(b"HTTP/1.1 200")
            waited_s.append(clock.now_s() - began_s)
            open_now = list(servers[0].server_state.connections)
            held_bytes = max(held_bytes, *(c.transport.get_write_buffer_size() for c in open_now), 0)
            await asyncio.sleep(0.02)
        assert 0 < held_bytes <= 5_000_000
        assert sorted(waited_s)[len(waited_s) // 2] < 0.5
        stuck.transport.abort()
