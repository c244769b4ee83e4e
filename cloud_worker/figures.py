"""What a worker tells about itself."""

from dataclasses import dataclass, field

from cloud_worker.settings import ServedModel
from pipeline.detectors.base import Detector
from pipeline.detectors.labels import label_set
from pipeline.metrics.little import QueueFlow
from pipeline.wire.messages import QueueFigures, WorkerModel


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


def announced_model(name: str, detector: Detector) -> WorkerModel:
    """A served model, as announced."""
    return WorkerModel(name=name, version=detector.version, label_set=label_set(detector.labels))


def queue_figures(flow: QueueFlow) -> QueueFigures:
    """A queue, as announced."""
    wait_ms = None if flow.wait_s is None else flow.wait_s * 1e3
    return QueueFigures(arrivals_per_s=flow.arrivals_per_s, wait_ms=wait_ms, mean_length=flow.mean_length)


def contract_of(model: ServedModel, detector: Detector, most_padding: float) -> tuple[object, ...]:
    """All about a served model that its answer to a picture depends on."""
    return model.name, detector.version, label_set(detector.labels), model.url, model.input_size, most_padding
