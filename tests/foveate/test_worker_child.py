"""The worker process of an all-in-one run, with real models."""

import asyncio
import signal
import subprocess
import sys
import urllib.request

import msgspec

from cloud_worker.settings import ServedModel, WorkerSettings
from foveate.children import WorkerOrder
from pipeline.transport.settings import MqttSettings
from tests.support.brokers import HOST, Embedded, free_port, until

MANY = 24
"""So large batches take seconds to warm up."""
PATIENCE_S = 40.0


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def started(settings: WorkerSettings, broker: Embedded) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    worker = subprocess.Popen([sys.executable, "-m", "foveate.worker_child"], stdin=pipe, stderr=pipe)
    assert worker.stdin is not None
    order = WorkerOrder(settings, MqttSettings(HOST, broker.port), None)
    worker.stdin.write(msgspec.json.encode(order, enc_hook=str) + b"\n")
    worker.stdin.flush()
    return worker


async def test_a_worker_that_is_stopped_while_it_loads_a_further_model_ends_in_order() -> None:
    port, models = free_port(), (ServedModel("nanodet-g", (192, 256)), ServedModel("nanodet-g-int8"))
    settings = WorkerSettings(models, worker="w", max_batch=MANY, threads=2, metrics_port=port)
    broker = Embedded()
    with broker:
        worker = started(settings, broker)
        try:
            await until(lambda: ready(port), PATIENCE_S)
            await asyncio.sleep(0.7)  # by then it warms the other one up
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.wait, 10) == 0
            assert worker.stderr is not None
            assert worker.stderr.read() == b""
        finally:
            worker.kill()
            worker.communicate()
