"""The way to the cloud of one simulated edge node, as ``edge_agent/uplink.py`` drives it."""

from collections.abc import Callable
from typing import Protocol

from edge_agent.settings import UplinkSettings
from foveate.simulation.agent_decisions import AgentDecisions
from foveate.simulation.events import EventLoop
from foveate.simulation.outcome import Tally
from foveate.simulation.questions import Question
from pipeline.policies.path import RoundTrip
from pipeline.results import Origin
from pipeline.wire.messages import Refusal

BACKLOG_BYTES = 256 * 1024
"""A session refuses a request while so much waits for the link; see ``pipeline/transport/mqtt.py``."""
REPLY_BYTES, ECHO_BYTES = 400, 100


class Road(Protocol):
    """One direction of a link, used in the order of time."""

    def transmit(self, size_bytes: int, now_s: float) -> float:
        """Take in bytes; returns when the last of them has arrived."""
        ...

    def waiting_bytes(self, now_s: float) -> float:
        """What has been taken in and has not passed yet."""
        ...


class SimulatedUplink:
    """Questions up, answers down. ``settle`` is told what has become of a question's frame."""

    def __init__(
        self,
        loop: EventLoop,
        settings: UplinkSettings,
        agent: AgentDecisions,
        road: tuple[Road, Road],
        tally: Tally,
        settle: Callable[[Question, Origin, str], None],
    ) -> None:
        self._loop, self._settings, self._agent = loop, settings, agent
        self._up, self._down = road
        self._tally, self._settle = tally, settle
        self._in_flight: dict[str, int] = {}
        self._waiting: dict[str, Question] = {}
        self._receive: Callable[[Question], None] | None = None
        self._probes_out = 0
        self._probe_due = False

    def open(self, receive: Callable[[Question], None]) -> None:
        """Send to these workers from now on."""
        self._receive = receive

    def ask(self, question: Question) -> None:
        """Send a question, or let it wait for its turn in the place of an older one of its camera."""
        name = question.camera.name
        if not question.camera.may_ask(self._loop.now_s):
            self._settle(question, Origin.EDGE_SHED, "busy")
        elif self._in_flight.get(name, 0) < self._settings.in_flight:
            self._send(question)
        else:
            self._displace(name, "displaced")
            self._waiting[name] = question

    def _displace(self, name: str, reason: str) -> None:
        displaced = self._waiting.pop(name, None)
        if displaced is not None:
            self._settle(displaced, Origin.EDGE_SHED, reason)

    def _send(self, question: Question) -> None:
        look, size_bytes, now_s = question.look, question.shot.size_bytes, self._loop.now_s
        if look.settle_at_s - now_s <= 0.001:
            self._settle(question, Origin.EDGE_SHED, "too_late_to_send")
        elif self._up.waiting_bytes(now_s) > BACKLOG_BYTES:
            self._settle(question, Origin.EDGE_SHED, "backlog")
            self._agent.backlog(now_s)
            self._probe()
        else:
            question.sent_at_s = now_s
            name = question.camera.name
            self._in_flight[name] = self._in_flight.get(name, 0) + 1
            question.ahead_bytes = self._agent.sent(name, size_bytes, now_s)
            self._tally.bytes_up += size_bytes
            self._loop.at(self._up.transmit(size_bytes, now_s), self._arrived, question)
            self._loop.at(look.settle_at_s, self._waited, question)

    def _arrived(self, question: Question) -> None:
        if self._receive is not None:
            self._receive(question)

    def _waited(self, question: Question) -> None:
        """The time of a question is up."""
        if question.look.ready_at_s is None:
            question.missed = True
            self._agent.missed(self._loop.now_s)
            self._settle(question, Origin.EDGE_TIMEOUT, "cloud_late")
            self._land(question.camera.name)
            self._probe()

    def _land(self, name: str) -> None:
        self._in_flight[name] -= 1
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            self._send(waiting)

    def reply(self, question: Question, queue_ms: float, infer_ms: float, refusal: Refusal | None) -> None:
        """A worker has answered or refused; its reply begins its way back."""
        question.queue_ms, question.infer_ms, question.refusal = queue_ms, infer_ms, refusal
        arrives_at_s = self._down.transmit(REPLY_BYTES, self._loop.now_s)
        self._loop.at(arrives_at_s, self._answered if refusal is None else self._refused, question)

    def _answered(self, question: Question) -> None:
        now_s = self._loop.now_s
        if now_s >= question.look.settle_at_s + self._settings.late_s:
            return  # nobody remembers the question
        round_trip_ms = (now_s - question.sent_at_s) * 1000
        size_bytes, queue_ms, cloud_ms = question.shot.size_bytes, question.queue_ms, question.infer_ms
        trip = RoundTrip(question.kind, size_bytes, question.ahead_bytes, round_trip_ms, queue_ms, cloud_ms)
        self._agent.answered(trip, now_s)
        question.camera.answered()
        self._tally.round_trip.add(round_trip_ms)
        if question.missed:
            self._tally.late_answers += 1
            return
        self._settle(question, Origin.CLOUD if question.kind == "frame" else Origin.FUSED, question.reason)
        self._land(question.camera.name)

    def _refused(self, question: Question) -> None:
        now_s = self._loop.now_s
        if now_s >= question.look.settle_at_s + self._settings.late_s or question.refusal is None:
            return
        self._agent.refused()
        question.camera.refused(now_s)
        self._displace(question.camera.name, "busy")
        if not question.missed:
            self._settle(question, Origin.EDGE_SHED, question.refusal.value)
            self._land(question.camera.name)

    def _probe(self, _nothing: None = None) -> None:
        """Send an echo probe where one is due while the circuit is open, or come back when it is."""
        self._probe_due = False
        now_s, due_s = self._loop.now_s, self._agent.next_probe_s(self._probes_out)
        if due_s is None:
            return
        if due_s > now_s:
            self._probe_at(due_s)
            return
        self._agent.probed(now_s)
        self._probes_out += 1
        self._loop.at(self._up.transmit(ECHO_BYTES, now_s), self._probe_arrived)
        self._probe()

    def _probe_at(self, due_s: float) -> None:
        if not self._probe_due:
            self._probe_due = True
            self._loop.at(due_s, self._probe)

    def _probe_arrived(self, _nothing: None) -> None:
        self._loop.at(self._down.transmit(ECHO_BYTES, self._loop.now_s), self._echoed)

    def _echoed(self, _nothing: None) -> None:
        self._probes_out -= 1
        self._agent.echoed()
        self._probe()
