"""One worker process: models loaded and warm, then announced, then served until a signal."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import cv2

from cloud_worker.announce import offline
from cloud_worker.metrics import metrics_served
from cloud_worker.service import Runners, WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from cloud_worker.warm_up import Prepared, RunTime, warm_up, warm_ups
from pipeline.detectors.execution import Execution
from pipeline.detectors.loading import load_detector, load_remote
from pipeline.detectors.onnx import OnnxDetector
from pipeline.timing import MonotonicClock
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings

logger = logging.getLogger(__name__)


async def serve(settings: WorkerSettings, broker: MqttSettings, models_dir: Path | None = None) -> None:
    """Load and warm up the models, connect, and serve until SIGTERM or SIGINT; a second signal cancels at once.

    Raises ModelError before anything is announced, ConfigError on names that cannot be part of a topic. A broker that
    cannot be reached is waited for.
    """
    cv2.setNumThreads(settings.threads)
    runners = Runners()
    detectors, run_times = await runners.model.run(partial(_load, settings, models_dir))
    prepared = Prepared({name: detector.input_of for name, detector in detectors.items()}, run_times)
    transport = MqttTransport(broker, will=offline(settings.worker))
    service = WorkerService(settings, detectors, transport, MonotonicClock(), runners, prepared)
    figures = metrics_served(service.worker_state, settings.metrics_host, settings.metrics_port)
    with _stopped_by_signals(service), figures:
        names = ", ".join(detectors)
        logger.info("worker %s serves %s, inference threads: %d", settings.worker, names, settings.threads)
        await service.run()
    logger.info("worker %s stopped: %s", settings.worker, service.statistics())


def _load(settings: WorkerSettings, models_dir: Path | None) -> tuple[dict[str, OnnxDetector], list[RunTime]]:
    """The detectors by name, each run at every batch size, and how long that took. Blocks."""
    detectors, times = {}, []
    most = 1 if settings.batch == "none" else settings.max_batch
    for model in settings.models:
        detector = _open(model, settings, models_dir)
        plan = warm_ups(model.input_size or detector.entry.input.largest_px, most, native=model.input_size is None)
        times += warm_up(detector, plan, MonotonicClock())
        detectors[model.name] = detector
    return detectors, times


def _open(model: ServedModel, settings: WorkerSettings, models_dir: Path | None) -> OnnxDetector:
    on = Execution(settings.providers, settings.most_padding)
    if model.url is not None:
        return load_remote(model.name, model.url, input_size=model.input_size, models_dir=models_dir, on=on)
    size, threads = model.input_size, settings.threads
    return load_detector(model.name, input_size=size, threads=threads, models_dir=models_dir, on=on)


@contextmanager
def _stopped_by_signals(service: WorkerService) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    seen: list[int] = []

    def on_signal(number: int) -> None:
        seen.append(number)
        if len(seen) == 1 or task is None:
            service.stop()
        else:
            task.cancel()

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
