"""Brokers for tests: each runs on a free port, can be stopped and started again, and hands out sessions."""

import asyncio
import contextlib
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from foveate.broker import EmbeddedBroker
from pipeline.network.profiles import Profile
from pipeline.timing import LoopClock
from pipeline.transport.backoff import Backoff
from pipeline.transport.base import Outgoing, Transport
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.transport.shaped import ShapedTransport

HOST = "127.0.0.1"


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def quick_backoff() -> Backoff:
    return Backoff(first_s=0.05, most_s=0.1, spread=0.5)


class Mosquitto:
    """A mosquitto process; ``extra`` are more lines of its configuration."""

    def __init__(self, program: str, extra: str = "") -> None:
        self.port = free_port()
        self._program = program
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        lines = f"listener {self.port} {HOST}\nallow_anonymous true\nset_tcp_nodelay true\n{self._extra}\n"
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "mosquitto.conf"
            config.write_text(lines)
            folder_path = Path(folder)
            folder_path.chmod(0o755)  # mosquitto leaves root before it reads
            self._process = subprocess.Popen([self._program, "-c", str(config)], stderr=subprocess.DEVNULL)
            wait_listening(self.port, self._process)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(5)


def wait_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=0.5):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
            raise AssertionError(f"the broker ended with code {process.returncode}")
    raise AssertionError(f"nothing listens on port {port}")


class Embedded(EmbeddedBroker):
    """The embedded broker on free ports."""

    def __init__(self) -> None:
        self.port, self.port_v3 = free_port(), free_port()
        super().__init__(HOST, self.port, self.port_v3)


class Bench:
    """A broker of some kind and the sessions on it; in process also behind a modelled network."""

    def __init__(self, broker: Mosquitto | Embedded | MemoryHub, network: Profile | None = None) -> None:
        self.broker = broker
        self._links = None if network is None else network.links()

    def session(self, will: Outgoing | None = None, backoff: Backoff | None = None) -> Transport:
        if isinstance(self.broker, MemoryHub):
            session = MemoryTransport(self.broker, will)
            return session if self._links is None else ShapedTransport(session, *self._links, LoopClock())
        return MqttTransport(MqttSettings(HOST, self.broker.port), will, backoff or quick_backoff())

    async def stop(self) -> None:
        if isinstance(self.broker, MemoryHub):
            self.broker.stop()
        else:
            await asyncio.to_thread(self.broker.stop)

    async def start(self) -> None:
        if isinstance(self.broker, MemoryHub):
            self.broker.start()
        else:
            await asyncio.to_thread(self.broker.start)


def cut(session: Transport) -> None:
    """End a session's connection without a goodbye."""
    if isinstance(session, ShapedTransport):
        session = session._inner
    if isinstance(session, MemoryTransport):
        session.abort()
    else:
        assert isinstance(session, MqttTransport)
        assert session._link is not None
        session._link._paho.socket().shutdown(socket.SHUT_RDWR)


async def until(condition: Callable[[], bool], within_s: float = 15.0) -> None:
    """Wait for something that sends no event."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - as said above
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(*sessions: Transport) -> AsyncIterator[None]:
    """Run sessions, connected from the start, until the block ends."""
    tasks = [asyncio.ensure_future(session.run()) for session in sessions]
    try:
        async with asyncio.timeout(20):
            await asyncio.gather(*(session.wait_connected() for session in sessions))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
