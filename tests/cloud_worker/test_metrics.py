"""A worker's figures for Prometheus are those that it announces."""

from prometheus_client import CollectorRegistry, generate_latest

from cloud_worker.metrics import WorkerCollector
from pipeline.wire.messages import BatchFigures, QueueFigures, Refusal, ReuseFigures, WorkerState

STATE = WorkerState(
    worker="w",
    online=True,
    queue_length=3,
    queue_capacity=64,
    infer_ms_p95=71.5,
    served=40,
    refused={"infeasible": 2},
    queue=QueueFigures(arrivals_per_s=4.0, wait_ms=6.0, mean_length=0.024),
    batches=BatchFigures(sizes={"1": 5, "8": 2}, reasons={"full": 2, "idle": 5}, padded_share=0.1, busy_s=0.84),
    wait_ms=12.0,
    reuse=ReuseFigures(joined=7, hits=10, misses=30, hit_ratio=0.25, mean_ms=60.0, held_bytes=900),
)


def text_of(state: WorkerState | None) -> str:
    registry = CollectorRegistry()
    registry.register(WorkerCollector(lambda: state))
    return generate_latest(registry).decode()


def test_what_is_announced_is_told() -> None:
    told = {line for line in text_of(STATE).splitlines() if not line.startswith("#")}
    told -= {f'foveate_worker_requests_total{{outcome="{each.value}"}} 0.0' for each in Refusal}
    assert told == {
        'foveate_worker_requests_total{outcome="answered"} 40.0',
        'foveate_worker_requests_total{outcome="infeasible"} 2.0',
        "foveate_worker_queue_length 3.0",
        "foveate_worker_queue_capacity 64.0",
        "foveate_worker_infer_p95_seconds 0.0715",
        "foveate_worker_queue_arrivals_per_second 4.0",
        "foveate_worker_queue_mean_length 0.024",
        "foveate_worker_queue_wait_seconds 0.006",
        "foveate_worker_expected_wait_seconds 0.012",
        "foveate_worker_busy_seconds_total 0.84",
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


def test_what_has_not_been_refused_yet_is_told_as_none_so_that_rules_over_it_have_a_value() -> None:
    told = text_of(WorkerState(worker="w", online=True))
    for refusal in Refusal:
        assert f'foveate_worker_requests_total{{outcome="{refusal.value}"}} 0.0' in told


def test_what_is_not_known_yet_is_left_out() -> None:
    told = text_of(WorkerState(worker="w", online=True))
    assert "foveate_worker_queue_length 0.0" in told
    assert "infer_p95" not in told
    assert "hit_ratio" not in told


def test_before_there_is_a_worker_nothing_is_told() -> None:
    assert text_of(None) == ""
