"""A child process that says what it does in lines on standard output, at low priority, and never outlives us."""

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

NICENESS = 10
"""Whatever answers frames on this machine comes first."""
MOST_LINE_BYTES = 1_000_000
STOP_S = 5.0
LAST_WORDS = 5
"""Lines of standard error that are kept."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit code (negative: a signal), its last words, and whether its time was up."""

    code: int
    words: str
    out_of_time: bool = False


async def run_child(
    command: Sequence[str],
    said: Callable[[bytes], None],
    limit_s: float,
    order: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a Python child to its end, and hand each line of its standard output to ``said``.

    It gets ``order`` as the first line of standard input, which stays open as its lifeline. After ``limit_s``, or when
    this is cancelled, it is asked to stop, and killed where it does not. Raises OSError where it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MOST_LINE_BYTES,
        env={**os.environ, **(env or {})},
        process_group=0,  # Ctrl+C reaches the whole group, and what it means is decided here
    )
    words: deque[str] = deque(maxlen=LAST_WORDS)
    out_of_time = False
    try:
        async with asyncio.timeout(limit_s):
            await asyncio.gather(
                _send(process, order),
                _read(process.stdout, said),
                _read(process.stderr, lambda line: _keep(words, line)),
            )
            code = await process.wait()
    except TimeoutError:
        out_of_time = True
        code = await _stop(process)
    except BaseException:
        await _stop(process)
        raise
    return Ended(code, "\n".join(words), out_of_time)


async def _send(process: asyncio.subprocess.Process, order: bytes) -> None:
    if process.stdin is not None and order:
        with contextlib.suppress(ConnectionError):  # it has ended before it read: its exit code says why
            process.stdin.write(order + b"\n")
            await process.stdin.drain()


async def _read(stream: asyncio.StreamReader | None, said: Callable[[bytes], None]) -> None:
    while stream is not None:
        try:
            line = await stream.readline()
        except ValueError:  # a line beyond all measure: its rest comes as further lines
            continue
        if not line:
            return
        said(line.rstrip(b"\r\n"))


def _keep(words: deque[str], line: bytes) -> None:
    if text := line.decode("utf-8", "replace").strip():
        words.append(text)


async def _stop(process: asyncio.subprocess.Process) -> int:
    """Ask it to stop by closing its lifeline and by a signal, then make it; returns the exit code."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            return await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


def hold_to_parent() -> None:
    """In a child: lower its own priority, and end it as soon as its parent is gone or closes the line."""
    os.nice(NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True, name="lifeline").start()


def _end_with_parent() -> None:
    # Not through sys.stdin: a thread that holds its lock would hinder the interpreter's end.
    while os.read(0, 4096):
        pass
    os._exit(0)
