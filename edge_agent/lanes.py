"""What the uplink keeps of each camera, and of each request under way."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from edge_agent.questions import AnswerListener, Question
from pipeline.metrics.windows import Rate
from pipeline.policies.breaker import HoldBack
from pipeline.policies.window import Departure
from pipeline.wire.messages import Refusal

NO_ROUTE = frozenset({Refusal.STOPPING, Refusal.UNKNOWN_MODEL, Refusal.FAILED})
"""Refusals that say the way is down."""
BUSY = frozenset({Refusal.QUEUE_FULL, Refusal.INFEASIBLE, Refusal.EXPIRED})
"""Refusals that say the worker has too much to do: the camera holds back for a while."""


@dataclass(slots=True)
class Flight:
    """A request under way. ``ahead_bytes`` were still on the way up when it was sent; ``missed``: its time is over."""

    question: Question
    sent_at_s: float
    size_bytes: int
    ahead_bytes: float
    departure: Departure
    missed: bool = False
    cut_off: bool = False
    """Under way when the circuit opened: how long its answer takes says nothing of the way afterwards."""

    def due_s(self, late_s: float) -> float:
        """When it will be missed, or, if it is, so late that it is forgotten."""
        return self.question.settle_at_s + (late_s if self.missed else 0.0)


def unanswered(flights: Iterable[Flight]) -> tuple[int, ...]:
    """The sizes of what may still be on the way up, in bytes; what was cut off is known to be of the past."""
    return tuple(flight.size_bytes for flight in flights if not flight.cut_off)


def silent(flights: Iterable[Flight]) -> bool:
    """Whether all that is out was missed and nothing came back: a question that must wait for it is one more miss."""
    out = [flight.missed for flight in flights if not flight.cut_off]
    return bool(out) and all(out)


@dataclass(slots=True)
class Lane:
    """One camera's part of the uplink. ``landed`` is set when a request of it is under way no more."""

    listener: AnswerListener
    patient: bool
    in_flight: int = 0
    hold: HoldBack = field(default_factory=HoldBack)
    landed: asyncio.Event = field(default_factory=asyncio.Event)
    rate: Rate = field(default_factory=lambda: Rate(10.0))

    def held(self, now_s: float) -> str:
        """Why the camera does not ask now: the worker is too busy for it. Empty where it may."""
        return "" if self.hold.allows(now_s) else "busy"
