"""A worker's figures for Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline.wire.messages import Refusal, WorkerState


class WorkerCollector(Collector):
    """Turns a state, as announced, into metrics; what is not known yet is left out, and all while there is no state."""

    def __init__(self, state: Callable[[], WorkerState | None]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        if state is None:
            return
        yield _requests(state)
        yield _gauge("queue_length", "Requests that wait now.", state.queue_length)
        yield _gauge("queue_capacity", "Requests that may wait.", state.queue_capacity)
        if state.infer_ms_p95 is not None:
            yield _gauge("infer_p95_seconds", "P95 of the newest kind of run of the model.", state.infer_ms_p95 / 1e3)
        if state.queue is not None:
            yield _gauge("queue_arrivals_per_second", "Arrivals over the last half minute.", state.queue.arrivals_per_s)
            yield _gauge("queue_mean_length", "Mean length over the last half minute.", state.queue.mean_length)
            if state.queue.wait_ms is not None:
                yield _gauge("queue_wait_seconds", "Mean wait over the last half minute.", state.queue.wait_ms / 1e3)
        if state.wait_ms is not None:
            yield _gauge("expected_wait_seconds", "How long a newcomer would wait now.", state.wait_ms / 1e3)
        yield from _batches(state)
        yield from _reuse(state)


def _requests(state: WorkerState) -> Metric:
    metric = CounterMetricFamily("foveate_worker_requests", "Requests by outcome.", labels=["outcome"])
    metric.add_metric(["answered"], state.served)
    for refusal in Refusal:  # also what has not occurred: to Prometheus a sum of nothing is not 0, and a rule is silent
        metric.add_metric([refusal.value], state.refused.get(refusal.value, 0))
    return metric


def _batches(state: WorkerState) -> Iterator[Metric]:
    if state.batches is None:
        return
    sizes = CounterMetricFamily("foveate_worker_batches", "Batches that were run, by size.", labels=["size"])
    for size, count in state.batches.sizes.items():
        sizes.add_metric([size], count)
    yield sizes
    reasons = CounterMetricFamily("foveate_worker_batch_closes", "What closed batches.", labels=["reason"])
    for reason, count in state.batches.reasons.items():
        reasons.add_metric([reason], count)
    yield reasons
    busy = CounterMetricFamily("foveate_worker_busy_seconds", "How long the model has run in all.")
    busy.add_metric([], state.batches.busy_s)
    yield busy
    if state.batches.padded_share is not None:
        yield _gauge("padded_share", "Share of the model's input that was padding.", state.batches.padded_share)


def _reuse(state: WorkerState) -> Iterator[Metric]:
    if state.reuse is None:
        return
    reused = CounterMetricFamily(
        "foveate_worker_reused_answers", "Answers that cost no run: joined one, or from the cache.", labels=["source"]
    )
    reused.add_metric(["joined"], state.reuse.joined)
    reused.add_metric(["cache"], state.reuse.hits)
    yield reused
    yield _gauge("cache_bytes", "What the kept answers hold.", state.reuse.held_bytes)
    if state.reuse.hit_ratio is not None:
        yield _gauge("cache_hit_ratio", "Share h of the answers that came from the cache.", state.reuse.hit_ratio)
    if state.reuse.mean_ms is not None:
        yield _gauge(
            "answer_mean_seconds", "h * mean time of a hit + (1 - h) * mean time of a miss.", state.reuse.mean_ms / 1e3
        )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"foveate_worker_{name}", text, value=value)
