"""A thread beside the others for one look at a time, which nobody waits for when the agent ends."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Aside:
    """Runs each call on a thread of its own; implements ``Runner``.

    A pool's threads are waited for at the end of the process, and a call that hangs holds its pool up for ever. What a
    candidate does must hold nothing up, and so rare a thread costs nothing.
    """

    async def run(self, call: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def tell(how: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(lambda: None if done.done() else how())

        def work() -> None:
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
                fault = error
                tell(lambda: done.set_exception(fault))
            else:
                tell(lambda: done.set_result(result))

        threading.Thread(target=work, name="aside", daemon=True).start()
        return await done
