"""One worker process: models loaded and warm, then announced, then served until a signal."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import cv2

from cloud_worker.announce import offline
from cloud_worker.health import Health, health_served
from cloud_worker.service import Runners, WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from cloud_worker.threads import BlockingRunner, ThreadRunner
from cloud_worker.warm_up import Prepared, warm_up, warm_ups
from pipeline.detectors.base import Detector
from pipeline.detectors.execution import Execution
from pipeline.detectors.loading import load_detector, load_remote
from pipeline.detectors.onnx import OnnxDetector
from pipeline.timing import MonotonicClock
from pipeline.transport.base import Transport
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire.messages import WorkerState

KEEPALIVE_S = 10
"""A host that dies without a word keeps its part of the requests until the broker misses it, after 1.5 times this."""

Loaded = tuple[Mapping[str, Detector], Prepared]
"""Detectors by name, and what is known of them."""

logger = logging.getLogger(__name__)


class _Process:
    """What signals and health checks find of a worker: nothing to serve with while the first model is being loaded."""

    def __init__(self) -> None:
        self.service: WorkerService | None = None
        self.stopped = asyncio.Event()

    def state(self) -> WorkerState | None:
        return None if self.service is None else self.service.worker_state()

    def fault(self) -> str:
        return "the model is being loaded" if self.service is None else self.service.fault()


async def serve(settings: WorkerSettings, broker: MqttSettings, models_dir: Path | None = None) -> None:
    """Load and warm up the first model, connect, and serve until SIGTERM or SIGINT; a second signal cancels at once.

    Further models are loaded while the first is served, and each is announced when it is ready. Raises ModelError,
    where the first model is at fault before anything is announced, and ConfigError on names that cannot be part of a
    topic. A broker that cannot be reached is waited for.
    """
    cv2.setNumThreads(settings.threads)
    broker = replace(broker, keepalive_s=min(broker.keepalive_s, KEEPALIVE_S))
    process = _Process()
    pages = health_served(Health(process.state, process.fault), settings.metrics_host, settings.metrics_port)
    with _stopped_by_signals(process), pages:
        runners = Runners()
        first, *rest = settings.models
        loaded = await _loaded(
            process, runners.model, partial(_load, first, settings, models_dir), settings.stop_limit_s
        )
        if loaded is None or process.stopped.is_set():  # also at the very moment at which it was loaded
            runners.model.close()
            logger.info("worker %s is stopped before it has begun to serve", settings.worker)
            return
        detectors, prepared = loaded
        transport = MqttTransport(broker, will=offline(settings.worker, settings.tier, settings.location))
        service = WorkerService(settings, detectors, transport, MonotonicClock(), runners, prepared)
        process.service = service
        load_rest = [partial(_load, model, settings, models_dir) for model in rest]
        logger.info(
            "worker %s serves %s, inference threads: %d",
            settings.worker,
            ", ".join(model.name for model in settings.models),
            settings.threads,
        )
        await service.run(serve_as_they_come(service, load_rest, lambda: MqttTransport(broker)))
        logger.info("worker %s stopped: %s", settings.worker, service.statistics())


async def _loaded(
    process: _Process, runner: BlockingRunner, load: Callable[[], Loaded], limit_s: float
) -> Loaded | None:
    """What a load brings; None where a signal comes first. It is waited for all the same, for ``limit_s`` at most: what
    cannot be loaded is so soon said, and a process ends in better order without native code under way (see ``leave``).
    """
    loading, stopped = asyncio.ensure_future(runner.run(load)), asyncio.ensure_future(process.stopped.wait())
    try:
        await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.done():
            return loading.result()
        await asyncio.wait({loading}, timeout=limit_s)
        return None
    finally:
        loading.cancel()
        stopped.cancel()
        await asyncio.gather(loading, stopped, return_exceptions=True)


async def serve_as_they_come(
    service: WorkerService, loads: Sequence[Callable[[], Loaded]], new_session: Callable[[], Transport]
) -> None:
    """Load models one after another, in a thread of their own, and serve each as soon as it is ready; until cancelled.

    Each has a session of its own, because a session's subscriptions are made before it runs. It carries requests alone.
    """
    loader = ThreadRunner("loader")
    try:
        async with asyncio.TaskGroup() as sessions:
            for load in loads:
                detectors, prepared = await loader.run(load)
                if service.stopping:
                    break
                session = new_session()
                service.add(detectors, prepared)
                for name in detectors:
                    service.listen(session, name)
                    logger.info("model %s is ready and served", name)
                sessions.create_task(session.run())
    finally:
        loader.close()


def _load(model: ServedModel, settings: WorkerSettings, models_dir: Path | None) -> Loaded:
    """A detector by its name, run at every batch size, and what that told. Blocks."""
    detector = _open(model, settings, models_dir)
    largest_px = model.input_size or detector.entry.input.largest_px
    plan = warm_ups(largest_px, _most_in_a_batch(settings), native=model.input_size is None)
    times = warm_up(detector, plan, MonotonicClock())
    return {model.name: detector}, Prepared({model.name: detector.input_of}, times)


def _most_in_a_batch(settings: WorkerSettings) -> int:
    return 1 if settings.batch == "none" else settings.max_batch


def _open(model: ServedModel, settings: WorkerSettings, models_dir: Path | None) -> OnnxDetector:
    on = Execution(settings.providers, settings.most_padding, split_batches=_most_in_a_batch(settings) > 1)
    if model.url is not None:
        return load_remote(model.name, model.url, input_size=model.input_size, models_dir=models_dir, on=on)
    size, threads = model.input_size, settings.threads
    return load_detector(model.name, input_size=size, threads=threads, models_dir=models_dir, on=on)


@contextmanager
def _stopped_by_signals(process: _Process) -> Iterator[None]:
    """Stop at the first signal and cancel at the second.

    Also while models are loaded: the first process of a container is not ended by signals that it does not handle.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    seen: list[int] = []

    def on_signal(number: int) -> None:
        seen.append(number)
        if len(seen) > 1 and task is not None:
            task.cancel()
            return
        process.stopped.set()
        if process.service is not None:
            process.service.stop()

    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    except asyncio.CancelledError:
        if len(seen) < 2:
            raise  # cancelled by whoever called serve
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
