"""What a link tells whoever asks over several of them."""

import asyncio
from collections import Counter
from typing import Protocol

from edge_agent.lanes import Flight
from edge_agent.questions import Answer, Question
from pipeline.wire.messages import Refusal


class Office(Protocol):
    """Told of what comes of the questions at each target, by its name. ``counters`` are events of all; whoever sets
    ``kick`` has something to be done.
    """

    counters: Counter[str]
    kick: asyncio.Event

    def sent(self, target: str, flight: Flight, p95_ms: float | None) -> None:
        """A question is on its way; an answer is likely within ``p95_ms`` (None: unknown)."""
        ...

    def answered(self, target: str, flight: Flight, answer: Answer) -> None:
        """An answer came, in time or late."""
        ...

    def refused(self, target: str, refusal: Refusal) -> None:
        """A refusal came; ``gave_up`` follows."""
        ...

    def gave_up(self, target: str, question: Question, reason: str, *, shed: bool) -> None:
        """No answer will come from there: ``shed`` where it was busy rather than down."""
        ...

    def overdue(self, target: str, flight: Flight) -> None:
        """No answer has come within the time in which nearly all come."""
        ...

    def turned(self, target: str) -> None:
        """The circuit has opened or closed."""
        ...

    def is_owed(self, target: str, question: Question) -> bool:
        """Whether an answer from there is still of use: nobody else has given one meanwhile."""
        ...

    def bytes_wait_s(self, target: str, camera: str, size_bytes: int) -> float:
        """How long the budget keeps a camera from sending so much there."""
        ...
