"""What batches were run, and why each was closed: counted for people, state and metrics."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cloud_worker.jobs import Job
from pipeline.policies.batch import BatchReason
from pipeline.wire.messages import BatchFigures


@dataclass(slots=True)
class BatchTally:
    """Counters since the start. Batch sizes are bounded by the policy's largest."""

    sizes: Counter[int] = field(default_factory=Counter)
    reasons: Counter[BatchReason] = field(default_factory=Counter)
    picture_px: int = 0
    input_px: int = 0
    busy_s: float = 0.0

    def count(self, jobs: Sequence[Job], reason: BatchReason) -> None:
        """A batch was closed for a reason and is run."""
        self.sizes[len(jobs)] += 1
        self.reasons[reason] += 1
        for job in jobs:
            _model, bucket = job.kind
            pixels = bucket.width * bucket.height
            self.input_px += pixels
            self.picture_px += min(job.size.width * job.size.height, pixels)

    def ran(self, run_s: float) -> None:
        """The model has run for so long, whatever came of it."""
        self.busy_s += run_s

    @property
    def padded_share(self) -> float | None:
        """The share of the model's input that was padding, None before the first batch."""
        return 1 - self.picture_px / self.input_px if self.input_px else None

    def figures(self) -> BatchFigures:
        """The same, as announced."""
        return BatchFigures(
            sizes={str(size): count for size, count in sorted(self.sizes.items())},
            reasons={reason.value: count for reason, count in self.reasons.items()},
            padded_share=self.padded_share,
            busy_s=round(self.busy_s, 3),
        )
