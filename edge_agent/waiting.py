"""The questions that wait for the way up: one queue for all cameras, of each its newest question."""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import cast

from edge_agent.questions import Question
from pipeline.frames import FrameKey
from pipeline.metrics.little import QueueFlow, QueueMeter
from pipeline.policies.agenda import Agenda
from pipeline.policies.path import PathEstimate
from pipeline.policies.schedule import Service, Ticket, WeightedEarliestDeadline
from pipeline.policies.window import SendWindow

_DEVIATIONS = 1.0
"""Early drop is for what will probably be late; that it is likely in time was decided when the question was made."""
_NOMINAL_BYTES_S = 1e6


@dataclass(frozen=True, slots=True)
class Way:
    """The way up at one moment: its models, and the sizes of what was sent and has not been answered."""

    path: PathEstimate
    window: SendWindow
    unanswered: tuple[int, ...] = ()

    def has_room(self, size_bytes: float) -> bool:
        """Whether so much may be sent now."""
        return self.window.has_room(size_bytes, sum(self.unanswered), len(self.unanswered))

    def service(self, now_s: float) -> Service:
        """What questions are expected to need, by (kind, size in bytes)."""
        ahead_s = self.path.ahead_bytes(now_s) * self.path.link.ms_per_kb / 1e6

        def alone_s(kind: Hashable) -> float | None:
            name, size_bytes = cast(tuple[str, int], kind)
            forecast = self.path.forecast(size_bytes, now_s, name, _DEVIATIONS)
            return None if forecast is None else forecast.tail_ms / 1e3 - ahead_s

        def together_s(kind: Hashable, count: int) -> float:
            rate_bytes_s = self.window.rate_bytes_s
            return 0.0 if rate_bytes_s is None else count * cast(tuple[str, int], kind)[1] / rate_bytes_s

        return Service(self.window.queued_s(sum(self.unanswered)), together_s, alone_s)


class WaitingRoom:
    """Questions in the order of the worker's own scheduling policy; cameras are its flows, and bound its length."""

    def __init__(self) -> None:
        self._agenda = Agenda(WeightedEarliestDeadline())
        self._waiting: dict[str, tuple[Ticket, Question]] = {}
        self._added = 0
        self._meter = QueueMeter()

    def __len__(self) -> int:
        return len(self._waiting)

    def questions(self) -> list[Question]:
        """What waits, of each camera one."""
        return [question for _, question in self._waiting.values()]

    def flow(self, now_s: float) -> QueueFlow:
        """What has gone through lately, for Little's law."""
        return self._meter.flow(now_s)

    def put(self, question: Question, now_s: float) -> Question | None:
        """Let a question wait; returns the older one of its camera, or itself where a newer one waits already."""
        camera = question.key.camera
        if camera in self._waiting and _order(self._waiting[camera][1]) > _order(question):
            return question  # of a frame that is asked about late, as the way opens again
        displaced = self.withdraw(camera, now_s)
        kind = question.kind, len(question.jpeg)
        self._added += 1
        ticket = Ticket(self._added, camera, kind, now_s, question.settle_at_s, question.weight)
        self._agenda.add(ticket)
        self._waiting[camera] = ticket, question
        self._meter.arrived(now_s)
        return displaced

    def holds(self, key: FrameKey, stage: int) -> bool:
        """Whether the question about a frame waits here, as one of that stage or an earlier one."""
        if key.camera not in self._waiting:
            return False
        question = self._waiting[key.camera][1]
        return question.key == key and question.stage <= stage

    def withdraw(self, camera: str, now_s: float) -> Question | None:
        """Take a camera's question out, if it has one here."""
        if camera not in self._waiting:
            return None
        ticket, question = self._waiting.pop(camera)
        self._agenda.remove(ticket)
        self._meter.left(now_s, now_s - ticket.arrived_s)
        return question

    def first(self, way: Way, may_send: Callable[[str], bool]) -> Question | None:
        """The first question whose camera may send, if the way has room for it; it still waits."""
        first = next((ticket for ticket in self._agenda.ordered() if may_send(str(ticket.flow))), None)
        if first is None or not way.has_room(cast(tuple[str, int], first.kind)[1]):
            return None
        return self._waiting[str(first.flow)][1]

    def drop_late(self, way: Way, now_s: float) -> list[Question]:
        """Take out what can no longer be answered in time, and what gives way because not all can be."""
        drops = self._agenda.drops(way.service(now_s), now_s)
        leaving = [self.withdraw(str(drop.ticket.flow), now_s) for drop in drops]
        return [question for question in leaving if question is not None]

    def sent(self, camera: str, size_bytes: int, way: Way, now_s: float) -> None:
        """A camera has had so much of the way."""
        self._agenda.served(camera, size_bytes / (way.window.rate_bytes_s or _NOMINAL_BYTES_S), now_s)

    def look_again_at_s(self, way: Way, now_s: float) -> float:
        """When a question becomes hopeless, should no answer make room before; infinity where nothing waits."""
        service = way.service(now_s)
        last = (ticket.deadline_s - (service.alone_s(ticket.kind) or 0.0) for ticket, _ in self._waiting.values())
        return min((moment_s for moment_s in last if moment_s > now_s), default=math.inf)


def _order(question: Question) -> tuple[int, int]:
    """By capture, among the frames of one camera."""
    return question.key.epoch, question.key.seq
