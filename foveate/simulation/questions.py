"""What moves through a simulated fleet: frames until they are answered, and questions about them."""

from dataclasses import dataclass
from typing import Protocol

from foveate.simulation.agent_decisions import CameraDecisions
from foveate.simulation.workload import RecordedFrame, Shot
from pipeline.policies.offload import Candidate
from pipeline.results import Origin
from pipeline.wire.messages import Refusal


@dataclass(slots=True, eq=False)
class Look:
    """A frame that the gate kept, until it is answered. ``ready_at_s`` is when nothing better will come.

    ``number`` counts the camera's frames; ``captured_s`` is its scene time too.
    """

    number: int
    frame: RecordedFrame
    candidates: tuple[Candidate, ...]
    captured_s: float
    settle_at_s: float
    ready_at_s: float | None = None
    origin: Origin = Origin.CARRIED
    reason: str = ""


class Asker(Protocol):
    """Who asks, and hears what has become of it."""

    def reply(self, question: "Question", queue_ms: float, infer_ms: float, refusal: Refusal | None) -> None:
        """A worker has answered or refused; its reply begins its way back."""
        ...


@dataclass(slots=True, eq=False)
class Question:
    """A picture on its way to a worker, and the worker's answer on its way back. Times are in seconds."""

    asker: Asker
    camera: CameraDecisions
    look: Look
    kind: str
    shot: Shot
    reason: str
    sent_at_s: float = 0.0
    ahead_bytes: float = 0.0
    missed: bool = False
    queue_ms: float = 0.0
    infer_ms: float = 0.0
    refusal: Refusal | None = None
