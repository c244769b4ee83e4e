"""Where blocking work runs: off the event loop, one call at a time."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


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
        self._thread: threading.Thread | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Raises queue.Full when 8 calls already wait."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put_nowait(lambda: _carry_out(call, loop, future))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        return await future

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._calls.put_nowait(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


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
