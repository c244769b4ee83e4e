"""The processes that an all-in-one run starts beside itself: kept alive, measured, ended with it."""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import psutil

from cloud_worker.settings import WorkerSettings
from pipeline.errors import FoveateError
from pipeline.timing import Clock, MonotonicClock
from pipeline.transport.settings import MqttSettings

_log = logging.getLogger(__name__)
FIRST_RESTART_S = 1.0
MOST_RESTART_S = 30.0
STOP_SLACK_S = 0.5


class Child(Protocol):
    """A process of ours. ``start`` and ``stop`` block; ``pid`` is None while it does not run."""

    @property
    def pid(self) -> int | None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """All that a worker process needs to know."""

    worker: WorkerSettings
    mqtt: MqttSettings
    models_dir: Path | None


class WorkerProcess:
    """A worker in a process of its own.

    Its order goes in as one line of JSON on standard input, so that secrets stay out of the process list; when the
    input closes the worker ends, so it never outlives this process.
    """

    def __init__(self, order: WorkerOrder) -> None:
        self._order, self._clock = order, MonotonicClock()
        self._asked_s: float | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or before it started."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        self.stop()  # let go of one that has ended
        command = [sys.executable, "-m", "foveate.worker_child"]
        # A group of its own: Ctrl+C reaches the whole group, and what it means is decided here.
        process = self._process = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)
        self._asked_s = None
        if process.stdin is not None:
            process.stdin.write(msgspec.json.encode(self._order, enc_hook=str) + b"\n")
            process.stdin.flush()

    def terminate(self) -> None:
        """Ask it to stop, without waiting; once, as a second signal would break off its goodbyes."""
        if self._process is not None and self._asked_s is None:
            self._asked_s = self._clock.now_s()
            self._process.terminate()

    def stop(self) -> None:
        self.terminate()
        process, self._process = self._process, None
        if process is None:
            return
        asked_s = self._asked_s or 0.0
        try:
            # Longer than it allows itself, so that what it does last is not broken off.
            left_s = asked_s + self._order.worker.stop_limit_s + STOP_SLACK_S - self._clock.now_s()
            process.wait(max(0.0, left_s))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # an order that it never read
                process.stdin.close()


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds used so far and the largest resident memory seen, in MiB."""

    cpu_s: float
    rss_mb: float


class Meter:
    """Adds up what a role costs, over all processes that have played it."""

    def __init__(self) -> None:
        self._cpu_s: dict[int, float] = {}
        self._rss_mb = 0.0

    def sample(self, pids: Sequence[int]) -> None:
        """Read the processes' figures; those that are gone keep their last ones."""
        rss_bytes = 0
        for pid in pids:
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    times = process.cpu_times()
                    rss_bytes += process.memory_info().rss
                self._cpu_s[pid] = times.user + times.system
            except psutil.Error:
                continue
        self._rss_mb = max(self._rss_mb, rss_bytes / 2**20)

    def sample_self(self, readers: Sequence[int]) -> None:
        """Read this process, the children that it has outlived, and the readers that are alive."""
        self._cpu_s.clear()  # whoever has ended since is counted among the outlived ones
        self.sample([os.getpid(), *readers])
        times = psutil.Process().cpu_times()
        self._cpu_s[0] = times.children_user + times.children_system

    def usage(self) -> Usage:
        return Usage(sum(self._cpu_s.values()), self._rss_mb)


async def keep_alive(name: str, child: Child, clock: Clock, retire: Callable[[], bool]) -> None:
    """Start a child again whenever it has ended, after 1 s doubling to 30 s; until cancelled.

    ``retire`` is asked first; True gives the child up for good.
    """
    delay_s, started_s = FIRST_RESTART_S, clock.now_s()
    while True:
        await asyncio.sleep(0.2)
        if child.pid is not None:
            continue
        if retire():
            return
        if clock.now_s() - started_s > MOST_RESTART_S:
            delay_s = FIRST_RESTART_S
        _log.warning("the %s has ended; starting it again in %.0f s", name, delay_s)
        await asyncio.sleep(delay_s)
        delay_s, started_s = min(MOST_RESTART_S, 2 * delay_s), clock.now_s()
        try:
            await _start(child)
        except (FoveateError, OSError) as error:
            _log.warning("the %s could not be started again: %s", name, error)


async def _start(child: Child) -> None:
    """Start a child on a thread; one whose start is cancelled half-way is stopped, as nobody else would know of it."""
    start = asyncio.ensure_future(asyncio.to_thread(child.start))
    try:
        await asyncio.shield(start)
    except asyncio.CancelledError:
        while not start.done():
            await asyncio.to_thread(child.stop)
            await asyncio.wait([start], timeout=0.05)
        await asyncio.to_thread(child.stop)
        raise
