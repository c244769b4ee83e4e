"""A requester with an agent's two sessions, and brokers to reach a worker over, each in a process of its own."""

import asyncio
import contextlib
import itertools
import math
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from foveate.bench.children import stop
from foveate.broker import EmbeddedBroker
from pipeline.errors import BrokerError
from pipeline.geometry import Size
from pipeline.timing import Clock
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_reply, decode_worker_state, encode_echo, encode_request
from pipeline.wire.messages import Echo, Reply, Request, WireCrop, WorkerState

HOST = "127.0.0.1"
BUDGET_MS = 2_000.0
READY_S = 60.0


@dataclass(frozen=True, slots=True)
class Trip:
    """A request's round trip in milliseconds, and the reply that it brought."""

    round_trip_ms: float
    reply: Reply

    @property
    def way_ms(self) -> float:
        """The part that was not the worker's."""
        return self.round_trip_ms - self.reply.total_ms


class Requester:
    """Sends as an agent does and notes when each reply came. ``bulk`` carries requests, ``control`` brings replies."""

    def __init__(self, agent: str, broker: MqttSettings, model: str, clock: Clock) -> None:
        self._bulk, self._control = MqttTransport(broker), MqttTransport(broker)
        self._agent, self._model, self._clock = agent, model, clock
        self._epoch = secrets.randbelow(2**31) + 1
        """A worker takes what comes again by the same name, within half a minute, for a duplicate."""
        self._numbers = itertools.count(1)
        self._sent_s: dict[bytes, float] = {}
        self._trips: dict[bytes, Trip] = {}
        self._served = asyncio.Event()
        self._control.subscribe(topics.reply(self._agent), self._on_reply)
        self._control.subscribe(topics.ANY_WORKER, self._on_worker, qos=1)

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Both sessions open and a worker that serves the model, until the block ends. Raises BrokerError."""
        running = [asyncio.ensure_future(session.run()) for session in (self._bulk, self._control)]
        try:
            await self._ready()
            yield
        finally:
            for session in running:
                session.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def ask(self, data: bytes, size: Size) -> bytes:
        """Ask about a whole frame, as a JPEG; the correlation data."""
        number, whole = next(self._numbers), (0, 0, size.width, size.height)
        request = Request(
            agent=self._agent,
            camera="clip",
            epoch=self._epoch,
            seq=number,
            budget_ms=BUDGET_MS,
            weight=1.0,
            kind="frame",
            frame_width=size.width,
            frame_height=size.height,
            crops=[WireCrop(whole, whole)],
            model=self._model,
            min_score=0.3,
        )
        return await self._send(encode_request(request, data), number)

    async def probe(self) -> bytes:
        """Send a probe, which a worker returns at once; the correlation data."""
        number = next(self._numbers)
        return await self._send(encode_echo(Echo(echo=number)), number)

    def took(self, correlation: bytes) -> Trip | None:
        """What a request took; None where no answer has come, or a refusal."""
        return self._trips.get(correlation)

    async def _ready(self) -> None:
        try:
            async with asyncio.timeout(READY_S):
                await asyncio.gather(self._bulk.wait_connected(), self._control.wait_connected(), self._served.wait())
        except TimeoutError as error:
            raise BrokerError(
                f"No worker announced {self._model} within {READY_S:g} s; what it said stands above."
            ) from error

    async def _send(self, payload: bytes, number: int) -> bytes:
        correlation = number.to_bytes(8, "big")
        message = Outgoing(
            topics.request("cloud", self._model),
            payload,
            response_topic=topics.reply(self._agent),
            correlation=correlation,
            expiry_s=math.ceil(BUDGET_MS / 1000),
        )
        self._sent_s[correlation] = self._clock.now_s()
        await self._bulk.publish(message)
        return correlation

    def _on_reply(self, message: Message) -> None:
        now_s = self._clock.now_s()
        reply = decode_reply(message.payload)
        sent_s = self._sent_s.get(message.correlation or b"")
        if message.correlation is None or sent_s is None or isinstance(reply, BadPayload):
            return
        if reply.refused is None:
            self._trips[message.correlation] = Trip((now_s - sent_s) * 1000, reply)

    def _on_worker(self, message: Message) -> None:
        state = decode_worker_state(message.payload)
        if isinstance(state, WorkerState) and state.online and self._model in {each.name for each in state.models}:
            self._served.set()


class Mosquitto:
    """A mosquitto on a port of its own, set as ``deploy/mosquitto`` sets it."""

    def __init__(self, program: str, port: int) -> None:
        self._program, self._port = program, port
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Mosquitto":
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "mosquitto.conf"
            config.write_text(f"listener {self._port} {HOST}\nallow_anonymous true\nset_tcp_nodelay true\n")
            Path(folder).chmod(0o755)  # mosquitto leaves root before it reads
            process = self._process = subprocess.Popen([self._program, "-c", str(config)], stderr=subprocess.DEVNULL)
            try:
                self._wait_listening(process)
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_fault: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            stop(process)

    def _wait_listening(self, process: subprocess.Popen[bytes]) -> None:
        for _ in range(250):
            with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), timeout=0.5):
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
                break
        raise BrokerError(f"{self._program} does not listen on {HOST}:{self._port}; start it by hand to see why.")


def embedded() -> tuple[EmbeddedBroker, MqttSettings]:
    """The embedded broker on a free port, not started."""
    port = _free_port()
    return EmbeddedBroker(HOST, port, None), MqttSettings(HOST, port)


def mosquitto() -> tuple[Mosquitto, MqttSettings] | None:
    """A mosquitto on a free port, not started; None where none is installed."""
    # Where distributions put what a server runs; not on everybody's path.
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    port = _free_port()
    return None if program is None else (Mosquitto(program, port), MqttSettings(HOST, port))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
