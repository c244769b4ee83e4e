"""Real workers, each a process, at a real broker: started for a measurement and ended with it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from cloud_worker.settings import WorkerSettings
from foveate.broker import DEFAULT_HOST, EmbeddedBroker
from foveate.children import Meter, Usage, WorkerOrder, WorkerProcess
from foveate.load.generator import Generator, Target
from pipeline.errors import ConfigError, FoveateError, ModelError
from pipeline.timing import MonotonicClock, cpu_s
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings

READY_S = 120.0
"""Loading and warming up a model takes seconds, on a busy machine or with a large one more."""
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds of the parts: broker and workers where they are ours, the generator, which is this process, and
    everything else that the machine does, which makes what is measured doubtful.
    """

    generator_s: float
    broker_s: float
    workers_s: float
    others_s: float

    def since(self, before: "Spent") -> "Spent":
        """What was spent since another reading."""
        return Spent(
            self.generator_s - before.generator_s,
            self.broker_s - before.broker_s,
            self.workers_s - before.workers_s,
            self.others_s - before.others_s,
        )


@dataclass(slots=True)
class Stand:
    """The workers and the generator of a measurement. ``workers`` is empty where they were there before."""

    generator: Generator
    workers: Sequence[WorkerProcess] = ()
    broker: EmbeddedBroker | None = None
    _meters: dict[str, Meter] = field(default_factory=dict)

    def spent(self) -> Spent:
        """CPU time until now; what is not ours counts as 0."""
        broker_pid = None if self.broker is None else self.broker.pid
        broker = self._usage("broker", [] if broker_pid is None else [broker_pid])
        workers = self._usage("workers", [each.pid for each in self.workers if each.pid is not None])
        own_s = cpu_s() + broker.cpu_s + workers.cpu_s
        return Spent(cpu_s(), broker.cpu_s, workers.cpu_s, _busy_s() - own_s)

    def _usage(self, role: str, pids: Sequence[int]) -> Usage:
        meter = self._meters.setdefault(role, Meter())
        meter.sample(pids)
        return meter.usage()


def alike(settings: WorkerSettings, count: int) -> list[WorkerSettings]:
    """So many workers with the same settings, each with a name of its own."""
    return [replace(settings, worker=f"{settings.worker}-{number}") for number in range(count)]


@contextlib.asynccontextmanager
async def started(
    workers: Sequence[WorkerSettings],
    agents: int,
    *,
    models_dir: Path | None = None,
    mqtt: MqttSettings | None = None,
) -> AsyncIterator[Stand]:
    """Workers that are warm and announced, and a generator that is connected to the same broker.

    The broker is a process of ours unless one is named by ``mqtt``. All workers serve the same first model, for which
    the generator asks. Raises FoveateError where a part cannot start.
    """
    async with contextlib.AsyncExitStack() as stack:
        broker = None
        if mqtt is None:
            port = _free_port()
            broker = EmbeddedBroker(port=port, port_v3=None)
            await asyncio.to_thread(broker.start)
            stack.push_async_callback(asyncio.to_thread, broker.stop)
            mqtt = MqttSettings(DEFAULT_HOST, port)
        processes = [WorkerProcess(WorkerOrder(each, mqtt, models_dir)) for each in workers]
        stack.push_async_callback(_end, processes)
        for process in processes:
            await asyncio.to_thread(process.start)
        target = Target(workers[0].models[0].name, workers[0].tier)
        settings = mqtt
        generator = Generator(target, agents, lambda: MqttTransport(settings), MonotonicClock())
        await stack.enter_async_context(generator.connected())
        await _ready(generator, processes)
        yield Stand(generator, processes, broker)


@contextlib.asynccontextmanager
async def joined(target: Target, agents: int, workers: int, mqtt: MqttSettings) -> AsyncIterator[Stand]:
    """A generator at a broker with workers that are there. Raises BrokerError where they are not."""
    generator = Generator(target, agents, lambda: MqttTransport(mqtt), MonotonicClock())
    async with generator.connected():
        await generator.wait_workers(workers, limit_s=10.0)
        yield Stand(generator)


async def _ready(generator: Generator, processes: Sequence[WorkerProcess]) -> None:
    """Wait for all workers, and no longer than they live."""
    waiting = asyncio.ensure_future(generator.wait_workers(len(processes), READY_S))
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=_LOOK_S)
            if ended := [process.exit_code for process in processes if process.pid is None]:
                fault = {kind.exit_code: kind for kind in (ConfigError, ModelError)}.get(ended[0] or 0, FoveateError)
                raise fault("a worker has ended while it started; its own message stands above.")
        await waiting
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _end(processes: Sequence[WorkerProcess]) -> None:
    for process in processes:
        process.terminate()  # all at once, so that they end side by side
    for process in processes:
        await asyncio.to_thread(process.stop)


def _busy_s() -> float:
    """CPU seconds that the machine has worked since its start, over all cores."""
    times = psutil.cpu_times()._asdict()
    idle = {"idle", "iowait", "guest", "guest_nice"}  # guests are in user and nice already
    return float(sum(value for name, value in times.items() if name not in idle))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((DEFAULT_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
