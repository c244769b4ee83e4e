"""A worker's figures for Prometheus are those that it announces."""

import asyncio
import socket
import threading
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cloud_worker.metrics import WorkerCollector, metrics_served
from pipeline.errors import ConfigError
from pipeline.wire.messages import BatchFigures, QueueFigures, ReuseFigures, WorkerState

STATE = WorkerState(
    worker="w",
    online=True,
    queue_length=3,
    queue_capacity=64,
    infer_ms_p95=71.5,
    served=40,
    refused={"infeasible": 2},
    queue=QueueFigures(arrivals_per_s=4.0, wait_ms=6.0, mean_length=0.024),
    batches=BatchFigures(sizes={"1": 5, "8": 2}, reasons={"full": 2, "idle": 5}, padded_share=0.1),
    reuse=ReuseFigures(joined=7, hits=10, misses=30, hit_ratio=0.25, mean_ms=60.0, held_bytes=900),
)


def text_of(state: WorkerState) -> str:
    registry = CollectorRegistry()
    registry.register(WorkerCollector(lambda: state))
    return generate_latest(registry).decode()


def test_what_is_announced_is_told() -> None:
    told = {line for line in text_of(STATE).splitlines() if not line.startswith("#")}
    assert told == {
        'foveate_worker_requests_total{outcome="answered"} 40.0',
        'foveate_worker_requests_total{outcome="infeasible"} 2.0',
        "foveate_worker_queue_length 3.0",
        "foveate_worker_queue_capacity 64.0",
        "foveate_worker_infer_p95_seconds 0.0715",
        "foveate_worker_queue_arrivals_per_second 4.0",
        "foveate_worker_queue_mean_length 0.024",
        "foveate_worker_queue_wait_seconds 0.006",
        'foveate_worker_batches_total{size="1"} 5.0',
        'foveate_worker_batches_total{size="8"} 2.0',
        'foveate_worker_batch_closes_total{reason="full"} 2.0',
        'foveate_worker_batch_closes_total{reason="idle"} 5.0',
        "foveate_worker_padded_share 0.1",
        'foveate_worker_reused_answers_total{source="joined"} 7.0',
        'foveate_worker_reused_answers_total{source="cache"} 10.0',
        "foveate_worker_cache_bytes 900.0",
        "foveate_worker_cache_hit_ratio 0.25",
        "foveate_worker_answer_mean_seconds 0.06",
    }


def test_what_is_not_known_yet_is_left_out() -> None:
    told = text_of(WorkerState(worker="w", online=True))
    assert "foveate_worker_queue_length 0.0" in told
    assert "infer_p95" not in told
    assert "hit_ratio" not in told


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


async def test_a_scrape_is_answered_from_the_event_loop() -> None:
    port, loop = free_port(), asyncio.get_running_loop()
    asked_on: list[asyncio.AbstractEventLoop] = []

    def state() -> WorkerState:
        asked_on.append(asyncio.get_running_loop())
        return STATE

    def scrape() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
            return str(reply.read().decode())

    with metrics_served(state, "127.0.0.1", port):
        assert "foveate_worker_queue_length 3.0" in await asyncio.to_thread(scrape)
    assert set(asked_on) == {loop}
    for thread in threading.enumerate():
        if thread.name == "metrics":
            await asyncio.to_thread(thread.join, 5)
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(scrape)


async def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=rf"metrics cannot be served on 127\.0\.0\.1:{port}"),
            metrics_served(lambda: STATE, "127.0.0.1", port),
        ):
            pass


async def test_without_a_port_nothing_is_served() -> None:
    with metrics_served(lambda: STATE, "127.0.0.1", None):
        pass
