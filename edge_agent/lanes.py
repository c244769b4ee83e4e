"""What is kept of each camera that asks, of its part of the way to a target, and of each request under way."""

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from edge_agent.questions import AnswerListener, Question
from edge_agent.settings import CameraSettings
from pipeline.metrics.windows import Rate
from pipeline.policies.breaker import HoldBack
from pipeline.policies.fallback import WaitSettings
from pipeline.policies.tier_offers import Privacy
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
    overdue_s: float = math.inf
    """When its answer will be overdue; infinite once that has been noticed, and where nobody minds."""
    surplus: bool = False
    """Another target's answer has made it superfluous."""

    def due_s(self, late_s: float) -> float:
        """When it will be overdue or missed, or, if it is missed, so late that it is forgotten."""
        settle_at_s = self.question.settle_at_s
        return settle_at_s + late_s if self.missed else min(settle_at_s, self.overdue_s)


def unanswered(flights: Iterable[Flight]) -> tuple[int, ...]:
    """The sizes of what may still be on the way up, in bytes; what was cut off is known to be of the past."""
    return tuple(flight.size_bytes for flight in flights if not flight.cut_off)


def silent(flights: Iterable[Flight]) -> bool:
    """Whether all that is out was missed and nothing came back: a question that must wait for it is one more miss."""
    out = [flight.missed for flight in flights if not flight.cut_off]
    return bool(out) and all(out)


@dataclass(frozen=True, slots=True)
class AskerSettings:
    """What a camera wants of those that it asks. ``weight`` is its share of the budget, beside the others'.

    A ``patient`` camera's questions wait for their turn, for bytes and for a busy worker, and it with them.
    ``deadline_ms`` is what a frame has in all, ``wait`` how long its answer is waited for.
    """

    weight: float = 1.0
    patient: bool = False
    privacy: Privacy = field(default_factory=Privacy)
    deadline_ms: float = 200.0
    wait: WaitSettings = field(default_factory=WaitSettings)

    @classmethod
    def of(cls, camera: CameraSettings, *, patient: bool) -> "AskerSettings":
        """Those of a configured camera."""
        deadline_ms = camera.patience_ms if patient else camera.deadline_ms
        return cls(camera.weight, patient, camera.privacy, deadline_ms, camera.wait)


@dataclass(slots=True)
class Asker:
    """A camera as the uplink knows it."""

    listener: AnswerListener
    settings: AskerSettings
    rate: Rate = field(default_factory=lambda: Rate(10.0))


@dataclass(slots=True)
class Lane:
    """One camera's part of the way to a target. ``landed`` is set when a request of it is under way no more."""

    patient: bool
    in_flight: int = 0
    hold: HoldBack = field(default_factory=HoldBack)
    landed: asyncio.Event = field(default_factory=asyncio.Event)

    def held(self, now_s: float) -> str:
        """Why the camera does not ask now: the worker is too busy for it. Empty where it may."""
        return "" if self.hold.allows(now_s) else "busy"
