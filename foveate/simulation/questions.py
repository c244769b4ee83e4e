"""What a simulated edge node asks the workers."""

from dataclasses import dataclass, field
from typing import Protocol

from foveate.simulation.agent_decisions import CameraDecisions
from foveate.simulation.scene import Look, question_bytes
from foveate.simulation.workload import Shot
from pipeline.policies.window import Departure
from pipeline.wire.messages import Refusal


class Asker(Protocol):
    """Who asks, and hears what has become of it."""

    def reply(self, question: "Question", queue_ms: float, infer_ms: float, refusal: Refusal | None) -> None:
        """A worker has answered or refused; its reply begins its way back."""
        ...


@dataclass(slots=True, eq=False)
class Question:
    """A picture on its way to a worker, and the worker's answer on its way back. Times are in seconds.

    ``settle_at_s`` is until when the answer is awaited, also where its frame is answered before.
    ``landed``: it does not count as under way any more; ``missed``: because its time was over; ``cut_off``: it was
    under way when the circuit opened.
    """

    asker: Asker
    camera: CameraDecisions
    look: Look
    kind: str
    shot: Shot
    reason: str
    settle_at_s: float
    sent_at_s: float = 0.0
    ahead_bytes: float = 0.0
    departure: Departure | None = None
    landed: bool = False
    missed: bool = False
    cut_off: bool = False
    queue_ms: float = 0.0
    infer_ms: float = 0.0
    refusal: Refusal | None = None
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = question_bytes(self.shot)
