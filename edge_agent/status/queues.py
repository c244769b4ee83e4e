"""The queues of an agent and of its workers, as the status shows them."""

from collections.abc import Iterable

from edge_agent.status.snapshot import QueueStatus
from edge_agent.workers import KnownWorker
from pipeline.metrics.little import QueueFlow


def queue_statuses(flows: Iterable[tuple[str, QueueFlow | None]], workers: Iterable[KnownWorker]) -> list[QueueStatus]:
    """The agent's own metered queues by name, and those that workers have announced."""
    own = [_own(name, flow) for name, flow in flows if flow is not None]
    return own + [told for known in workers if (told := _told(known)) is not None]


def _own(name: str, flow: QueueFlow) -> QueueStatus:
    return QueueStatus(
        name=name,
        length=flow.length,
        arrivals_per_s=flow.arrivals_per_s,
        wait_ms=None if flow.wait_s is None else flow.wait_s * 1000,
        expected_length=flow.expected_length,
        mean_length=flow.mean_length,
    )


def _told(known: KnownWorker) -> QueueStatus | None:
    state, queue = known.state, known.state.queue
    if queue is None:
        return None
    return QueueStatus(
        name=f"worker {state.worker}",
        length=state.queue_length,
        arrivals_per_s=queue.arrivals_per_s,
        wait_ms=queue.wait_ms,
        expected_length=None if queue.wait_ms is None else queue.arrivals_per_s * queue.wait_ms / 1000,
        mean_length=queue.mean_length,
    )
