"""What a worker tells about itself."""

from dataclasses import dataclass, field

from pipeline.metrics.little import QueueFlow
from pipeline.wire.messages import QueueFigures


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """What the worker has done so far, and what it holds now."""

    received: int
    answered: int
    echoed: int
    refused: dict[str, int]
    ignored: dict[str, int]
    replies_lost: dict[str, int]
    batches: dict[str, int]
    queued: int
    batch_sizes: dict[str, int] = field(default_factory=dict)
    padded_share: float | None = None
    joined: int = 0
    cached: int = 0
    hit_ratio: float | None = None
    mean_ms: float | None = None


def queue_figures(flow: QueueFlow) -> QueueFigures:
    """A queue, as announced."""
    wait_ms = None if flow.wait_s is None else flow.wait_s * 1e3
    return QueueFigures(arrivals_per_s=flow.arrivals_per_s, wait_ms=wait_ms, mean_length=flow.mean_length)
