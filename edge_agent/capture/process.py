"""A reader process as the agent sees it: start it, ask it, hear its noise, get rid of it."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable
from typing import cast

import msgspec

from edge_agent.capture.protocol import NEXT, Answer, Opened, Opening, Order, Over, Picture, decode_answer, encode
from pipeline.results import CameraState

START_TIMEOUT_S = 20.0  # to load Python and OpenCV on a machine that is very busy
WATCHDOG_SLACK_S = 1.0  # what the process may take beyond the timeouts that it keeps itself
CLOSE_GRACE_S = 0.5
DRAIN_GRACE_S = 0.1
_NOISE_CHUNK_BYTES = 4096


class ReaderProcess:
    """One run of ``edge_agent.capture.child``. Every fault of the process becomes an ``Over``, never an exception."""

    def __init__(self, process: asyncio.subprocess.Process, order: Order, listening: asyncio.Task[None]) -> None:
        self._process = process
        self._order = order
        self._listening = listening
        self._commands = cast(asyncio.StreamWriter, process.stdin)
        self._answers = cast(asyncio.StreamReader, process.stdout)
        self._phase: type[Opening | Opened | Picture] = Opening

    @classmethod
    async def start(cls, order: Order, hear: Callable[[list[str]], None]) -> "ReaderProcess | Over":
        """Start a process and hand it its order; an ``Over`` where the system refuses. ``hear`` gets its noise."""
        command = [sys.executable, "-P", "-m", "edge_agent.capture.child"]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(order.shared_file,),
            )
        except OSError as error:
            return Over(CameraState.OFFLINE, f"the reader process cannot start: {error.strerror}", final=False)
        stderr = cast(asyncio.StreamReader, process.stderr)
        reader = cls(process, order, asyncio.create_task(_listen(stderr, hear), name="capture noise"))
        reader._tell(encode(order))
        return reader

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self) -> Answer:
        """The next answer, or an ``Over`` when the process hangs, dies or talks nonsense."""
        if self._phase is Picture:
            self._tell(NEXT)
        try:
            async with asyncio.timeout(self._patience_s()):
                line = await self._answers.readline()
                if not line:
                    return await self._died()
            answer = decode_answer(line)
        except TimeoutError:
            return self._hung()
        except (msgspec.MsgspecError, ValueError) as error:
            return Over(CameraState.STALE, f"the reader process answered nonsense: {error}", final=False)
        if isinstance(answer, Opening):
            self._phase = Opened
        elif isinstance(answer, Opened):
            self._phase = Picture
        return answer

    async def close(self) -> None:
        """End the process: politely, so that it can say goodbye to its camera, then by force."""
        process = self._process
        self._commands.close()
        try:
            async with asyncio.timeout(CLOSE_GRACE_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await self._hear_out()

    async def _hear_out(self) -> None:
        await asyncio.wait({self._listening}, timeout=DRAIN_GRACE_S)
        self._listening.cancel()

    def _tell(self, line: bytes) -> None:
        # Lines are short and answered one by one, so the pipe never fills; a dead reader shows on its output.
        with contextlib.suppress(ConnectionError):
            self._commands.write(line)

    def _patience_s(self) -> float:
        if self._phase is Opening:
            return START_TIMEOUT_S + self._order.wait_s
        limit_s = self._order.open_timeout_s if self._phase is Opened else self._order.read_timeout_s
        return limit_s + WATCHDOG_SLACK_S

    def _hung(self) -> Over:
        if self._phase is Picture:
            limit_s = self._order.read_timeout_s
            return Over(CameraState.STALE, f"no picture for {limit_s:g} s: the reader hangs", final=False)
        limit_s = self._order.open_timeout_s
        return Over(CameraState.OFFLINE, f"did not open within {limit_s:g} s", final=False)

    async def _died(self) -> Over:
        code = await self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        state = CameraState.STALE if self._phase is Picture else CameraState.OFFLINE
        return Over(state, f"the reader process {how}", final=False)


async def _listen(stderr: asyncio.StreamReader, hear: Callable[[list[str]], None]) -> None:
    rest = b""
    while chunk := await stderr.read(_NOISE_CHUNK_BYTES):
        # Decoders write a line in pieces; what has no end yet waits, within bounds.
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > _NOISE_CHUNK_BYTES:
            whole, rest = [*whole, rest], b""
        lines = [line.decode(errors="replace").strip() for line in whole if line.strip()]
        if lines:
            hear(lines)
