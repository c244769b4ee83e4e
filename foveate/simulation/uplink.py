"""The way to the cloud of one simulated edge node, as ``edge_agent/uplink.py`` drives it."""

import math
from collections import Counter
from collections.abc import Callable

import edge_agent.questions
from edge_agent.settings import UplinkSettings
from edge_agent.waiting import WaitingRoom, Way
from foveate.simulation.agent_decisions import AgentDecisions
from foveate.simulation.events import EventLoop
from foveate.simulation.outcome import Tally
from foveate.simulation.probes import SimulatedProbes
from foveate.simulation.questions import Question
from foveate.simulation.roads import Road
from pipeline.frames import FrameKey
from pipeline.policies.fallback import Bound
from pipeline.policies.path import RoundTrip
from pipeline.results import Origin
from pipeline.wire.messages import Refusal

BACKLOG_BYTES = 256 * 1024
"""A session refuses a request while so much waits for the link; see ``pipeline/transport/mqtt.py``."""
REPLY_BYTES = 400
LOOK_AGAIN_S = 0.001


class SimulatedUplink:
    """Questions up, answers down. ``settle`` is told what has become of a question's frame, ``overdue`` that its answer
    need not be waited for any longer.
    """

    def __init__(
        self,
        loop: EventLoop,
        settings: UplinkSettings,
        agent: AgentDecisions,
        road: tuple[Road, Road],
        tally: Tally,
        settle: Callable[[Question, Origin, str], None],
        overdue: Callable[[Question], None],
    ) -> None:
        self._loop, self._settings, self._agent = loop, settings, agent
        self._up, self._down = road
        self._tally, self._settle, self._overdue = tally, settle, overdue
        self._receive: Callable[[Question], None] | None = None
        self._in_flight: Counter[str] = Counter()
        self._under_way: set[Question] = set()
        self._unanswered: list[int] = []
        self._room = WaitingRoom()
        self._waiting: dict[str, Question] = {}
        self._look_again_at_s = math.inf
        self._probes = SimulatedProbes(loop, agent, road)

    def open(self, receive: Callable[[Question], None]) -> None:
        """Send to these workers from now on."""
        self._receive = receive

    def ask(self, question: Question) -> None:
        """Send a question, or let it wait for its turn in the place of an older one of its camera."""
        camera, now_s = question.camera, self._loop.now_s
        if not camera.may_ask(now_s):
            self._settle(question, Origin.EDGE_SHED, "busy")
            return
        way = self._way()
        if not self._waiting and self._may_send(camera.name) and way.has_room(question.shot.size_bytes):
            self._send(question)  # it would be put into the room and taken out again at once
            return
        self._drop_late()
        displaced = self._room.put(_as_asked(question), now_s)
        if displaced is not None:
            self._settle(self._waiting[camera.name], Origin.EDGE_SHED, "displaced")
        self._waiting[camera.name] = question
        self._send_waiting()

    def _way(self) -> Way:
        return Way(self._agent.path, self._agent.window, tuple(self._unanswered))

    def _may_send(self, camera: str) -> bool:
        return self._in_flight[camera] < self._settings.in_flight

    def _drop_late(self) -> None:
        for late in self._room.drop_late(self._way(), self._loop.now_s):
            self._settle(self._waiting.pop(late.key.camera), Origin.EDGE_SHED, "too_late_to_send")

    def _send_waiting(self) -> None:
        while (asked := self._room.first(self._way(), self._may_send)) is not None:
            self._room.withdraw(asked.key.camera, self._loop.now_s)
            self._send(self._waiting.pop(asked.key.camera))
        if self._waiting:
            at_s = max(self._room.look_again_at_s(self._way(), self._loop.now_s), self._loop.now_s + LOOK_AGAIN_S)
            if at_s < self._look_again_at_s:
                self._look_again_at_s = at_s
                self._loop.at(at_s, self._drain)

    def _drain(self, _nothing: None = None) -> None:
        """Look at what waits: a question has landed, or it is time."""
        self._look_again_at_s = math.inf
        if self._waiting:
            self._drop_late()
            self._send_waiting()

    def _send(self, question: Question) -> None:
        size_bytes, now_s = question.size_bytes, self._loop.now_s
        if not self._agent.closed:
            self._settle(question, Origin.EDGE, "circuit_open")
        elif question.settle_at_s - now_s <= 0.001:
            self._settle(question, Origin.EDGE_SHED, "too_late_to_send")
        elif self._up.waiting_bytes(now_s) > BACKLOG_BYTES:
            self._agent.backed_up(now_s)
            self._circuit_changed()
            self._settle(question, Origin.EDGE_SHED, "backlog")
        else:
            self._put_on_link(question, size_bytes, now_s)

    def _put_on_link(self, question: Question, size_bytes: int, now_s: float) -> None:
        camera, look = question.camera, question.look
        p95_ms = self._agent.path.p95_ms(now_s, size_bytes, question.kind)
        question.sent_at_s = now_s
        unanswered_bytes = sum(self._unanswered)
        question.ahead_bytes, question.departure = self._agent.sent(camera.name, size_bytes, unanswered_bytes, now_s)
        self._room.sent(camera.name, size_bytes, self._way(), now_s)
        self._in_flight[camera.name] += 1
        self._under_way.add(question)
        self._unanswered.append(size_bytes)
        self._tally.bytes_up += size_bytes
        look.waits_until_s = camera.wait(now_s, question.settle_at_s, p95_ms).until_s
        self._loop.at(self._up.transmit(size_bytes, now_s), self._arrived, question)
        if look.waits_until_s < question.settle_at_s:
            self._loop.at(look.waits_until_s, self._overdue, question)
        self._loop.at(question.settle_at_s, self._waited, question)

    def _arrived(self, question: Question) -> None:
        if self._receive is not None:
            self._receive(question)

    def _waited(self, question: Question) -> None:
        """The time of a question is up."""
        if question.landed:
            return
        question.missed = True
        self._settle(question, Origin.EDGE_TIMEOUT, Bound.DEADLINE.value)
        if not question.cut_off:
            self._agent.missed(self._loop.now_s)
            self._circuit_changed()
        self._land(question)
        self._loop.at(self._loop.now_s + self._settings.late_s, self._forget, question)

    def _forget(self, question: Question) -> None:
        """A question is not known any more: its answer would be of no use."""
        if question in self._under_way:
            self._under_way.discard(question)
            if not question.cut_off:
                self._unanswered.remove(question.size_bytes)

    def _land(self, question: Question) -> None:
        if not question.landed:
            question.landed = True
            self._in_flight[question.camera.name] -= 1
        self._drain()

    def _circuit_changed(self) -> None:
        """While the circuit is open, what is under way is cut off, and the way is probed."""
        if not self._agent.closed:
            for question in self._under_way:
                question.cut_off = True
            self._unanswered.clear()
            self._probes.send()

    def reply(self, question: Question, queue_ms: float, infer_ms: float, refusal: Refusal | None) -> None:
        """A worker has answered or refused; its reply begins its way back."""
        question.queue_ms, question.infer_ms, question.refusal = queue_ms, infer_ms, refusal
        self._loop.at(self._down.transmit(REPLY_BYTES, self._loop.now_s), self._replied, question)

    def _replied(self, question: Question) -> None:
        if question not in self._under_way:
            return
        self._forget(question)
        if question.departure is not None and not question.cut_off:
            self._agent.replied(question.size_bytes, question.departure, self._loop.now_s)
        if question.refusal is None:
            self._answered(question, self._loop.now_s)
        else:
            self._refused(question, question.refusal, self._loop.now_s)
        self._land(question)

    def _answered(self, question: Question, now_s: float) -> None:
        round_trip_ms = (now_s - question.sent_at_s) * 1000
        self._tally.round_trip.add(round_trip_ms)
        size_bytes, queue_ms, cloud_ms = question.size_bytes, question.queue_ms, question.infer_ms
        trip = RoundTrip(question.kind, size_bytes, question.ahead_bytes, round_trip_ms, queue_ms, cloud_ms)
        self._agent.answered(None if question.cut_off else trip, now_s)
        question.camera.answered()
        if question.look.ready_at_s is not None:
            self._tally.late_answers += 1
        self._settle(question, Origin.CLOUD if question.kind == "frame" else Origin.FUSED, question.reason)

    def _refused(self, question: Question, refusal: Refusal, now_s: float) -> None:
        name = question.camera.name
        self._agent.answered(None, now_s)
        if not question.missed:
            question.camera.refused(now_s)
            if self._room.withdraw(name, now_s) is not None:
                self._settle(self._waiting.pop(name), Origin.EDGE_SHED, "busy")
        self._settle(question, Origin.EDGE_SHED, refusal.value)


def _as_asked(question: Question) -> edge_agent.questions.Question:
    """The question as the waiting room knows it."""
    return edge_agent.questions.Question(
        key=FrameKey(question.camera.name, 0, question.look.number),
        kind=question.kind,
        frame_width=0,
        frame_height=0,
        crops=(),
        jpeg=bytes(question.shot.size_bytes),
        settle_at_s=question.settle_at_s,
        weight=question.camera.settings.weight,
    )
