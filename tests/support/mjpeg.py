"""An HTTP MJPEG camera: multipart pictures in real time, each with its number."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable

from tests.support.rtsp import HOST, serve
from tests.support.video_clips import jpeg, scene

BOUNDARY = "frame"


class MjpegCamera:
    """Sends scenes at ``fps``; the number of a picture is that of its tick, however slow the reader is.

    ``picture`` makes the bytes of one tick. ``most`` ends a connection after that many pictures.
    """

    def __init__(
        self,
        fps: float = 30.0,
        picture: Callable[[int], bytes] | None = None,
        most: int | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        self._fps = fps
        self._picture = picture or (lambda number: jpeg(scene(number)))
        self._most = most
        self._login = login
        self.port = 0
        self.number = 0
        self.connections = 0
        self.refused = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["MjpegCamera"]:
        async with serve(self._talk) as self.port:
            yield self

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/video"

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.connections += 1
        if self._login is not None:
            wanted = base64.b64encode(":".join(self._login).encode())
            if b"Basic " + wanted not in request:
                self.refused += 1
                writer.write(b'HTTP/1.0 401 Unauthorized\r\nWWW-Authenticate: Basic realm="test"\r\n\r\n')
                await writer.drain()
                return
        writer.write(
            f"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary={BOUNDARY}\r\n\r\n".encode()
        )
        loop = asyncio.get_running_loop()
        zero_s, sent, self.number = loop.time(), 0, self.number + 1
        first = self.number
        while self._most is None or sent < self._most:
            data = self._picture(self.number)
            head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
            writer.write(head.encode() + data + b"\r\n")
            await writer.drain()
            sent += 1
            await asyncio.sleep(max(0.0, zero_s + (self.number + 1 - first) / self._fps - loop.time()))
            self.number = max(self.number + 1, first + int((loop.time() - zero_s) * self._fps))
