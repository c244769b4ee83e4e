"""One worker process: models loaded and warm, then announced, then served until a signal."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

from cloud_worker.announce import offline
from cloud_worker.service import Runners, WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from cloud_worker.threads import BlockingRunner
from pipeline.detectors.loading import load_detector
from pipeline.detectors.onnx import OnnxDetector
from pipeline.timing import MonotonicClock
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings

WARM_UP_RUNS = 1

logger = logging.getLogger(__name__)


async def serve(settings: WorkerSettings, broker: MqttSettings, models_dir: Path | None = None) -> None:
    """Load and warm up the models, connect, and serve until SIGTERM or SIGINT; a second signal cancels at once.

    Raises ModelError before anything is announced, ConfigError on names that cannot be part of a topic. A broker that
    cannot be reached is waited for.
    """
    cv2.setNumThreads(settings.threads)
    runners = Runners()
    detectors = await _load(settings, models_dir, runners.model)
    transport = MqttTransport(broker, will=offline(settings.worker))
    service = WorkerService(settings, detectors, transport, MonotonicClock(), runners)
    with _stopped_by_signals(service):
        names = ", ".join(detectors)
        logger.info("worker %s serves %s, inference threads: %d", settings.worker, names, settings.threads)
        await service.run()
    logger.info("worker %s stopped: %s", settings.worker, service.statistics())


async def _load(settings: WorkerSettings, models_dir: Path | None, runner: BlockingRunner) -> dict[str, OnnxDetector]:
    def load_all() -> dict[str, OnnxDetector]:
        return {model.name: _warm(model, settings.threads, models_dir) for model in settings.models}

    return await runner.run(load_all)


def _warm(model: ServedModel, threads: int, models_dir: Path | None) -> OnnxDetector:
    """A loaded detector that has run at its largest size, so that the first request does not pay for it."""
    detector = load_detector(model.name, input_size=model.input_size, threads=threads, models_dir=models_dir)
    height, width = model.input_size or detector.entry.input.largest_px
    picture = np.full((height, width, 3), 114, np.uint8)
    for _ in range(WARM_UP_RUNS):
        detector.detect([picture], min_score=0.5)
    return detector


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
