"""The only place where a clock is read.

Everything else is handed ``now_s``, or a ``Clock``. Monotonic seconds order events inside one machine and
never cross the wire; wall time is for display alone.
"""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """A source of monotonic time."""

    def now_s(self) -> float:
        """Seconds on a clock that never goes back; the zero point means nothing."""
        ...


class MonotonicClock:
    """The clock of the running machine; the same in every process on it, and the event loop's own."""

    def now_s(self) -> float:
        return time.monotonic()


class LoopClock:
    """The running event loop's clock: virtual under ``run_virtual``, monotonic elsewhere."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        return self._now_s

    def advance(self, by_s: float) -> None:
        """Move forward by ``by_s`` seconds. Raises ValueError on a negative step."""
        if by_s < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-by_s} s")
        self._now_s += by_s


def cpu_s() -> float:
    """CPU seconds (user and system) that this process has used."""
    return time.process_time()


def wall_time() -> datetime:
    """The present moment in UTC, for display and for message time stamps only."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Format a UTC moment with milliseconds, for example ``2026-03-01T12:00:00.000Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _JumpSelector(selectors.SelectSelector):
    """A selector that never waits: it moves the virtual clock to the next timer instead."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            # Nothing timed is pending: only another thread can wake the loop.
            return super().select(1.0)
        self.skipped_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on which sleeping takes no time; for tests and simulation without real I/O."""

    def __init__(self) -> None:
        self._jump = _JumpSelector()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.skipped_s

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        """Wait for the threads without a time limit: on this clock it would be over at once (Python 3.12 sets one)."""
        await super().shutdown_default_executor()


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on virtual time and return its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
