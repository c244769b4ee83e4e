"""The threads that do the agent's CPU work, so that the event loop never does."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Protocol, TypeVar

from edge_agent.releases.aside import Aside

T = TypeVar("T")


class Runner(Protocol):
    """Runs a blocking call away from the event loop."""

    async def run(self, call: Callable[[], T]) -> T: ...


class Pool:
    """A named pool of threads of fixed size."""

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class SpareThreads:
    """Runs calls on the event loop's spare threads: files, and what else may take its time."""

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.to_thread(call)


class Inline:
    """Runs the call at once, on the caller's thread; for tests on virtual time."""

    async def run(self, call: Callable[[], T]) -> T:
        return call()


class Pools:
    """``image``: gate, drawing, JPEG. ``model``: the small model, one frame at a time. ``aside``: a model that is not
    proven yet, away from both.
    """

    def __init__(self, image: Runner, model: Runner, aside: Runner | None = None) -> None:
        self.image, self.model, self.aside = image, model, aside or model

    @classmethod
    def threads(cls) -> "Pools":
        """Real threads: two for pictures, one for the model, and one for each look aside."""
        return cls(Pool("image", 2), Pool("model", 1), Aside())

    def __enter__(self) -> "Pools":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for runner in (self.image, self.model):
            if isinstance(runner, Pool):
                runner.close()
