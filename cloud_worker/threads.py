"""Where blocking work runs: off the event loop, one call at a time."""

import asyncio
import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeVar

T = TypeVar("T")
ENDS_WITHIN_S = 0.05
"""A thread that was told that no call will come is over so soon, if it is in none."""


class BlockingRunner(Protocol):
    """Runs a blocking call somewhere else and gives back what it returns or raises."""

    async def run(self, call: Callable[[], T]) -> T: ...

    def close(self) -> None:
        """Take no more calls; never waits for one that is under way."""
        ...


class ThreadRunner:
    """One daemon thread, started by the first call.

    Not a ThreadPoolExecutor, because the interpreter joins those at exit: a model that hangs in native code would
    keep a stopped worker alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue(maxsize=8)
        self._thread: _Calling | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Raises queue.Full when 8 calls already wait."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put_nowait(lambda: _carry_out(call, loop, future))
        if self._thread is None:
            self._thread = _Calling(self._name, self._calls)
            self._thread.start()
        return await future

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._calls.put_nowait(None)


class _Calling(threading.Thread):
    """Makes calls, one after another, until None comes in the place of one."""

    def __init__(self, name: str, calls: "queue.Queue[Callable[[], None] | None]") -> None:
        super().__init__(name=name, daemon=True)
        self._calls = calls

    @property
    def busy(self) -> bool:
        """Whether a call is under way or waits."""
        return self._calls.unfinished_tasks > 0

    def run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            self._calls.task_done()
        self._calls.task_done()


def leave(code: int) -> NoReturn:
    """End the process with an exit code.

    Where a call is still under way (a model that is being loaded, or that hangs) the interpreter's own end is left out:
    native code that comes back to a daemon thread meanwhile aborts the process, whatever it was to end with.
    """
    busy = [each for each in threading.enumerate() if isinstance(each, _Calling) and each.busy]
    for thread in busy:
        thread.join(ENDS_WITHIN_S)
    if any(thread.busy for thread in busy):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # whoever reads is gone
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _carry_out(call: Callable[[], T], loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]") -> None:
    try:
        result = call()
    except Exception as error:  # noqa: BLE001 - handed to the waiting coroutine as it is
        _settle(loop, future, future.set_exception, error)
    else:
        _settle(loop, future, future.set_result, result)


def _settle(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]", settle: Callable[[Any], None], value: Any
) -> None:
    def unless_cancelled() -> None:
        if not future.done():
            settle(value)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(unless_cancelled)
