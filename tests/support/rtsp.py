"""RTSP and TCP servers for tests: a real one, one that refuses, one that never answers, and a line that can be cut."""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

HOST = "127.0.0.1"

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


def free_port() -> int:
    """A TCP port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class RtspServer:
    """aio-rtsp-toolkit in a process of its own, serving the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._control_port = free_port()
        self._process: asyncio.subprocess.Process | None = None

    def url(self, name: str) -> str:
        return f"rtsp://{HOST}:{self.port}/{name}"

    async def start(self) -> None:
        """Start and wait until connections are taken."""
        program = Path(sys.executable).with_name("rtsp-server")
        ports = ["-p", str(self.port), "-cp", str(self._control_port)]
        command = [str(program), "-d", str(self._folder), "-H", HOST, *ports]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        async with asyncio.timeout(20):
            while True:
                assert self._process.returncode is None, "the RTSP server ended at once"
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(HOST, self.port)
                    writer.close()
                    return
                await asyncio.sleep(0.05)

    async def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None


SDP = (
    "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=test\r\nt=0 0\r\n"
    "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:track1\r\n"
)


class StubRtsp:
    """Answers OPTIONS with 200 and everything else with one status; keeps the headers that tests ask about.

    With ``describes`` it also describes a stream, so that its client goes on to ask for a transport.
    """

    def __init__(self, status: str = "401 Unauthorized", *, describes: bool = False) -> None:
        self._status = status
        self._describes = describes
        self.port = 0
        self.transports: list[str] = []
        self.authorizations: list[str] = []
        self.connections = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["StubRtsp"]:
        async with serve(self._talk) as self.port:
            yield self

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while request := await reader.readuntil(b"\r\n\r\n"):
            lines = request.decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
            if "Authorization" in headers:
                self.authorizations.append(headers["Authorization"])
            if "Transport" in headers:
                self.transports.append(headers["Transport"])
            described = self._describes and lines[0].startswith("DESCRIBE")
            status = "200 OK" if described or lines[0].startswith("OPTIONS") else self._status
            extra = 'WWW-Authenticate: Basic realm="test"\r\n' if status.startswith("401") else ""
            body = SDP if described else ""
            if body:
                extra = f"Content-Type: application/sdp\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"RTSP/1.0 {status}\r\nCSeq: {headers['CSeq']}\r\n{extra}\r\n{body}".encode())
            await writer.drain()


class StallProxy:
    """Forwards one port to another, and can stop forwarding without closing anything."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["StallProxy"]:
        async with serve(self._talk) as self.port:
            yield self

    def stall(self) -> None:
        self._flowing.clear()

    def heal(self) -> None:
        self._flowing.set()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        far_reader, far_writer = await asyncio.open_connection(HOST, self._target_port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer))
                group.create_task(self._pump(far_reader, writer))
        finally:
            far_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side hung up")


@contextlib.asynccontextmanager
async def blackhole() -> AsyncIterator[int]:
    """A port that accepts connections and never answers."""

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass

    async with serve(ignore) as port:
        yield port


@contextlib.asynccontextmanager
async def serve(talk: Talk) -> AsyncIterator[int]:
    """Serve connections on a free port until the end of the block; whoever is connected then is cut off."""
    running: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ExceptionGroup):
            pass  # the other side left, or the test is over
        finally:
            running.discard(task)
            writer.close()

    server = await asyncio.start_server(handle, HOST, 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
