"""The questions that wait for the way up: one queue for all cameras, of each its newest question."""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import cast

from edge_agent.questions import Question
from pipeline.metrics.little import QueueFlow, QueueMeter
from pipeline.policies.agenda import Agenda
from pipeline.policies.path import PathEstimate
from pipeline.policies.schedule import Service, Ticket, WeightedEarliestDeadline

MOST_AHEAD_S = 0.05
"""So much time of the link may be taken up by what is on the way. More would wait in the socket, where order is fixed;
less would leave the link idle between two looks at what waits.
"""
_DEVIATIONS = 1.0
"""Early drop is for what will probably be late; that it is likely in time was decided when the question was made."""
_NOMINAL_BYTES_S = 1e6


@dataclass(frozen=True, slots=True)
class Way:
    """The way up at one moment: its model, and the bytes that were sent and have not been answered."""

    path: PathEstimate
    unanswered_bytes: float

    def free_s(self, now_s: float) -> float:
        """Until what is on the way has gone up; what has been answered certainly has, whatever the model says."""
        return self._link_s(min(self.path.ahead_bytes(now_s), self.unanswered_bytes))

    def opens_s(self, size_bytes: float, now_s: float) -> float:
        """Until there is room for so much; at once where nothing is on the way, however large it is."""
        free_s = self.free_s(now_s)
        return min(free_s, max(0.0, free_s + self._link_s(size_bytes) - MOST_AHEAD_S))

    def service(self, now_s: float) -> Service:
        """What questions are expected to need, by (kind, size in bytes)."""

        def alone_s(kind: Hashable) -> float | None:
            name, size_bytes = cast(tuple[str, int], kind)
            forecast = self.path.forecast(size_bytes, now_s, name, _DEVIATIONS)
            return None if forecast is None else forecast.tail_ms / 1e3 - self._link_s(self.path.ahead_bytes(now_s))

        def together_s(kind: Hashable, count: int) -> float:
            return count * self._link_s(cast(tuple[str, int], kind)[1])

        return Service(self.free_s(now_s), together_s, alone_s)

    def _link_s(self, size_bytes: float) -> float:
        bandwidth_bytes_s = self.path.bandwidth_bytes_s
        return 0.0 if bandwidth_bytes_s is None else size_bytes / bandwidth_bytes_s


class WaitingRoom:
    """Questions in the order of the worker's own scheduling policy; cameras are its flows, and bound its length."""

    def __init__(self) -> None:
        self._agenda = Agenda(WeightedEarliestDeadline())
        self._waiting: dict[str, tuple[Ticket, Question]] = {}
        self._added = 0
        self._meter = QueueMeter()

    def __len__(self) -> int:
        return len(self._waiting)

    def flow(self, now_s: float) -> QueueFlow:
        """What has gone through lately, for Little's law."""
        return self._meter.flow(now_s)

    def put(self, question: Question, now_s: float) -> Question | None:
        """Let a question wait; returns the older one of its camera, whose place it takes."""
        camera = question.key.camera
        displaced = self.withdraw(camera, now_s)
        kind = question.kind, len(question.jpeg)
        self._added += 1
        ticket = Ticket(self._added, camera, kind, now_s, question.settle_at_s, question.weight)
        self._agenda.add(ticket)
        self._waiting[camera] = ticket, question
        self._meter.arrived(now_s)
        return displaced

    def withdraw(self, camera: str, now_s: float) -> Question | None:
        """Take a camera's question out, if it has one here."""
        if camera not in self._waiting:
            return None
        ticket, question = self._waiting.pop(camera)
        self._agenda.remove(ticket)
        self._meter.left(now_s, now_s - ticket.arrived_s)
        return question

    def next(self, way: Way, may_send: Callable[[str], bool], now_s: float) -> Question | None:
        """Take out the first question whose camera may send, if the way has room for it."""
        first = next((ticket for ticket in self._agenda.ordered() if may_send(str(ticket.flow))), None)
        if first is None or way.opens_s(_size_bytes(first), now_s) > 0:
            return None
        return self.withdraw(str(first.flow), now_s)

    def drop_late(self, way: Way, now_s: float) -> list[Question]:
        """Take out what can no longer be answered in time, and what gives way because not all can be."""
        drops = self._agenda.drops(way.service(now_s), now_s)
        leaving = [self.withdraw(str(drop.ticket.flow), now_s) for drop in drops]
        return [question for question in leaving if question is not None]

    def sent(self, camera: str, size_bytes: int, path: PathEstimate, now_s: float) -> None:
        """A camera has had so much of the way."""
        self._agenda.served(camera, size_bytes / (path.bandwidth_bytes_s or _NOMINAL_BYTES_S), now_s)

    def look_again_at_s(self, way: Way, now_s: float) -> float:
        """When the way will have room or a question becomes hopeless; infinity where nothing waits."""
        service = way.service(now_s)
        opens = (now_s + way.opens_s(_size_bytes(ticket), now_s) for ticket, _ in self._waiting.values())
        last = (ticket.deadline_s - (service.alone_s(ticket.kind) or 0.0) for ticket, _ in self._waiting.values())
        return min((moment_s for moment_s in (*opens, *last) if moment_s > now_s), default=math.inf)


def _size_bytes(ticket: Ticket) -> int:
    return cast(tuple[str, int], ticket.kind)[1]
