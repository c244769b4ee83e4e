"""What becomes of a job."""

from collections.abc import Callable
from dataclasses import dataclass

from cloud_worker.jobs import Job
from cloud_worker.replies import Durations
from pipeline.detections import Detections
from pipeline.policies.schedule import Drop, DropReason
from pipeline.wire.messages import AnswerSource, Refusal


@dataclass(frozen=True, slots=True)
class Answered:
    """The model's detections in pixels of the sent picture, and the size of the batch they came from; 0 for none.

    ``source`` is as in ``Reply``.
    """

    found: Detections
    batch_size: int
    source: AnswerSource = "run"


@dataclass(frozen=True, slots=True)
class Refused:
    """No answer, and why."""

    refusal: Refusal
    detail: str


Outcome = Answered | Refused
Deliver = Callable[[Job, Outcome, Durations], None]

GAVE_WAY = Refused(Refusal.QUEUE_FULL, "the queue is full, and it gave way to an agent that holds less of it")


def given_up(drop: Drop) -> Refused:
    """The refusal of what scheduling gives up."""
    left_ms = drop.left_s * 1e3
    if drop.reason is DropReason.HOPELESS:
        return Refused(Refusal.EXPIRED, f"{left_ms:.1f} ms are left after the wait, too few to run")
    return Refused(Refusal.INFEASIBLE, f"gave way with {left_ms:.1f} ms left: not all that waits can be in time")
