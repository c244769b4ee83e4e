"""The queues of the agent and of its workers in one list."""

from edge_agent.status.queues import queue_statuses
from edge_agent.status.snapshot import QueueStatus
from edge_agent.workers import KnownWorker
from pipeline.metrics.little import QueueFlow
from pipeline.wire.messages import QueueFigures, WorkerState


def known(worker: str, queue: QueueFigures | None) -> KnownWorker:
    return KnownWorker(WorkerState(worker=worker, online=True, queue_length=3, queue=queue), 0.0)


def test_own_queues_and_those_that_workers_announce_are_told_alike() -> None:
    flows = [("uplink", QueueFlow(1, 10.0, 0.05, 0.49)), ("not metered", None), ("idle", QueueFlow(0, 0.0, None, 0.0))]
    workers = [
        known("w1", QueueFigures(arrivals_per_s=20.0, wait_ms=100.0, mean_length=1.9)),
        known("of another version", None),
        known("w2", QueueFigures(arrivals_per_s=0.0, wait_ms=None, mean_length=0.0)),
    ]
    assert queue_statuses(flows, workers) == [
        QueueStatus(name="uplink", length=1, arrivals_per_s=10.0, wait_ms=50.0, expected_length=0.5, mean_length=0.49),
        QueueStatus(name="idle", length=0, arrivals_per_s=0.0, wait_ms=None, expected_length=None, mean_length=0.0),
        QueueStatus(
            name="worker w1", length=3, arrivals_per_s=20.0, wait_ms=100.0, expected_length=2.0, mean_length=1.9
        ),
        QueueStatus(
            name="worker w2", length=3, arrivals_per_s=0.0, wait_ms=None, expected_length=None, mean_length=0.0
        ),
    ]
