"""The way to one target: requests out, answers in, never more than a bounded number under way.

Per camera at most a set number is in flight, and in all no more than the way delivers soon; one more of each camera
waits, and a newer one takes its place. What the way costs is measured, and a circuit breaker keeps requests from a way
that is down and probes it.
"""

import asyncio
import itertools
import math
import secrets
from collections import Counter
from collections.abc import Iterator

from edge_agent.lanes import BUSY, NO_ROUTE, Flight, Lane, silent, unanswered
from edge_agent.office import Office
from edge_agent.probes import ProbedCircuit
from edge_agent.questions import Answer, Question, Target, fits, request_message
from edge_agent.settings import UplinkSettings
from edge_agent.steer import learned
from edge_agent.waiting import WaitingRoom, Way
from pipeline.policies.breaker import Breaker
from pipeline.policies.path import PathEstimate
from pipeline.policies.window import SendWindow
from pipeline.timing import Clock
from pipeline.transport.base import Message, Outgoing, PublishStatus, Transport
from pipeline.wire import topics
from pipeline.wire.codec import MAX_CANCELLED, BadPayload, decode_reply, encode_cancel
from pipeline.wire.messages import Cancel, Refusal, Reply


class TargetLink:
    """See the module. The office calls ``step`` whenever its ``kick`` is set, and at ``next_s``."""

    def __init__(
        self, agent: str, target: Target, settings: UplinkSettings, bulk: Transport, clock: Clock, office: Office
    ) -> None:
        self.target = target
        self._agent, self._settings, self._bulk, self._clock, self._office = agent, settings, bulk, clock, office
        self._session, self._numbers = secrets.token_bytes(4), itertools.count(1)
        breaker = Breaker(settings.misses_to_open, settings.probe_every_s)
        topic, back = topics.request(target.name, target.model), topics.reply(agent)
        self.circuit = ProbedCircuit(topic, back, breaker, bulk, clock, self._circuit_changed)
        self.path = PathEstimate.holding(settings.probe_every_s)
        self.window = SendWindow()
        self.waiting = WaitingRoom()
        self.flights: dict[bytes, Flight] = {}
        self.lanes: dict[str, Lane] = {}
        self.counters: Counter[str] = Counter()
        self._to_cancel: list[bytes] = []
        self._several = False

    def open_lane(self, camera: str, *, patient: bool) -> None:
        """Let a camera ask here."""
        self.lanes[camera] = Lane(patient)

    def _circuit_changed(self) -> None:
        """What is under way when it opens is cut off."""
        for flight in self.flights.values() if not self.circuit.closed else ():
            flight.cut_off = True
        self._office.turned(self.target.name)
        self._office.kick.set()

    def one_of_several(self) -> None:
        """From now on it is measured also while, and before, it is used: by a probe so often that it is believed until
        the second one is missing.
        """
        every_s = self._settings.probe_every_s
        self.circuit.refresh_every_s, self._several = every_s, True
        self.path = self.path.held_for(2 * every_s)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way to it, and nothing waits."""
        return not self.flights and not self.waiting

    async def ask(self, question: Question) -> None:
        """Send a question, or let it wait for its turn. The office hears of the outcome."""
        lane = self.lanes[question.key.camera]
        hindrance = await self._turn(lane, question) if lane.patient else lane.held(self._clock.now_s())
        if hindrance:
            self._give_up(question, hindrance, shed=True)
        elif lane.patient:
            await self._send(question)
        else:
            self._drop_late()
            self._displace(self.waiting.put(question, self._clock.now_s()), "displaced")
            # Only its own question is sent by a camera, so that nothing of another one can stop it.
            if self.waiting.first(self._way(), self._may_send) is question:
                await self._send_next(question)
            elif self.waiting:
                self._office.kick.set()
                if silent(self.flights.values()):
                    self.circuit.missed()

    def _displace(self, question: Question | None, reason: str) -> None:
        if question is not None:
            self._give_up(question, reason, shed=True)

    async def _turn(self, lane: Lane, question: Question) -> str:
        """Wait until a patient question may go; why it may not within half of its time, which others wait for too."""
        last_s = (self._clock.now_s() + question.settle_at_s) / 2
        while True:
            while lane.in_flight >= self._settings.in_flight:
                lane.landed.clear()
                await lane.landed.wait()
            now_s = self._clock.now_s()
            held_s = max(0.0, lane.hold.until_s - now_s)
            wait_s = max(held_s, self._office.bytes_wait_s(self.target.name, question.key.camera, len(question.jpeg)))
            if wait_s <= 0:
                return ""
            if now_s + wait_s > last_s:
                return "busy" if held_s == wait_s else "budget"
            await asyncio.sleep(max(0.01, wait_s))

    async def _send(self, question: Question) -> None:
        lane, now_s = self.lanes[question.key.camera], self._clock.now_s()
        budget_ms = (question.settle_at_s - now_s) * 1000
        if not self.circuit.closed or budget_ms <= 1.0:
            late = self.circuit.closed
            self._give_up(question, "too_late_to_send" if late else "circuit_open", shed=late)
            return
        if not self._office.is_owed(self.target.name, question):
            return  # it waited, and was answered by another target meanwhile
        correlation = self._session + next(self._numbers).to_bytes(8, "big")
        score = self._settings.asked_score
        message = request_message(question, self._agent, self.target, score, correlation, budget_ms)
        size_bytes = len(message.payload)
        departure = self.window.departs(size_bytes, sum(self._way().unanswered), now_s)
        flight = Flight(question, now_s, size_bytes, self.path.ahead_bytes(now_s), departure)
        self.flights[correlation] = flight
        lane.in_flight += 1
        status = await self._bulk.publish(message)
        if status is not PublishStatus.SENT:
            self._not_sent(correlation, status)
            return
        p95_ms = self.path.p95_ms(now_s, size_bytes, question.kind)
        self.path = self.path.sent(size_bytes, now_s)
        self.waiting.sent(question.key.camera, size_bytes, self._way(), now_s)
        self.counters["asked"] += 1
        self.counters["bytes_up"] += size_bytes
        self._office.sent(self.target.name, flight, p95_ms)
        self._office.kick.set()

    def _not_sent(self, correlation: bytes, status: PublishStatus) -> None:
        flight = self.flights.pop(correlation, None)
        if flight is None:
            return  # publishing took so long that the question has expired meanwhile
        self._land(flight)
        if status is PublishStatus.BACKLOG:
            self.circuit.backed_up()
        elif status is PublishStatus.NOT_CONNECTED and not flight.missed:
            self.circuit.missed()
        self._give_up(flight.question, status.value, shed=status is PublishStatus.BACKLOG)

    def _give_up(self, question: Question, reason: str, *, shed: bool) -> None:
        self._office.counters[reason] += 1
        self._office.gave_up(self.target.name, question, reason, shed=shed)

    def take(self, message: Message) -> bool:
        """Take in a reply, if it is one to a request or a probe of this link. Returns whether it was."""
        flight = self.flights.pop(message.correlation, None) if message.correlation else None
        if flight is None:
            return self._echoed(message)
        now_s = self._clock.now_s()
        self._land(flight)
        if not flight.cut_off:
            self.window = self.window.arrived(flight.size_bytes, flight.departure, now_s)
        reply = decode_reply(message.payload)
        if isinstance(reply, BadPayload) or not fits(reply, flight.question, self._agent):
            self.circuit.refused()
            self._give_up(flight.question, "bad_reply", shed=False)
        elif reply.refused is not None:
            self._refused(flight, reply.refused, now_s)
        else:
            self._answered(flight, reply, now_s)
        return True

    def _answered(self, flight: Flight, reply: Reply, now_s: float) -> None:
        round_trip_ms = (now_s - flight.sent_at_s) * 1000
        if not flight.cut_off:
            sent = flight.question.kind, flight.size_bytes, flight.ahead_bytes
            self.path = learned(self.path, sent, round_trip_ms, reply, now_s)
        self.circuit.answered()
        lane = self.lanes[flight.question.key.camera]
        lane.hold = lane.hold.answered()
        self.counters["answered"] += 1
        network_ms = max(0.0, round_trip_ms - reply.total_ms)
        lesser = self.target.model != self._settings.model
        answer = Answer(flight.question, reply, round_trip_ms, network_ms, self.target.tier, lesser=lesser)
        self._office.answered(self.target.name, flight, answer)

    def _echoed(self, message: Message) -> bool:
        """Take in the echo of a probe. Returns whether it was one."""
        probe = self.circuit.echoed(message.correlation, message.payload)
        if probe is None:
            return False
        self._office.counters["echoes"] += 1
        now_s = self._clock.now_s()
        if probe.measures(now_s):
            self.path = self.path.probed(probe.size_bytes, 0.0, (now_s - probe.sent_at_s) * 1000, now_s)
        return True

    def _refused(self, flight: Flight, refusal: Refusal, now_s: float) -> None:
        down = refusal in NO_ROUTE
        (self.circuit.refused if down else self.circuit.answered)()
        self.counters["refused"] += refusal is not Refusal.CANCELLED  # that was this agent's own wish
        self._office.refused(self.target.name, refusal)
        lane = self.lanes[flight.question.key.camera]
        if refusal in BUSY and not flight.missed:
            lane.hold = lane.hold.refused(now_s)
            self._displace(self.waiting.withdraw(flight.question.key.camera, now_s), "busy")
        self._office.gave_up(self.target.name, flight.question, refusal.value, shed=not down)

    def _land(self, flight: Flight) -> None:
        """Free the place of a flight that has not been given up before."""
        if not flight.missed:
            lane = self.lanes[flight.question.key.camera]
            lane.in_flight -= 1
            lane.landed.set()
        self._office.kick.set()

    def supersede(self, question: Question) -> None:
        """Another target has answered a question, at this stage or a later one: nothing is to come of it here, and a
        worker need not begin.
        """
        camera, now_s = question.key.camera, self._clock.now_s()
        if self.waiting.holds(question.key, question.stage):
            self.waiting.withdraw(camera, now_s)
        for correlation, flight in self.flights.items():
            same = flight.question.key == question.key and flight.question.stage <= question.stage
            if same and not flight.surplus:
                self._land(flight)
                flight.missed = flight.surplus = True
                self._to_cancel.append(correlation)

    async def step(self, now_s: float) -> None:
        """Miss what is late, forget what is useless, send what waits."""
        self._expire(now_s)
        await self._cancel()
        await self.circuit.probe(self._used_at_s())
        self._drop_late()
        while (question := self.waiting.first(self._way(), self._may_send)) is not None:
            await self._send_next(question)

    async def _cancel(self) -> None:
        cancelled, self._to_cancel = self._to_cancel[:MAX_CANCELLED], []
        if cancelled:
            payload = encode_cancel(Cancel(correlations=cancelled))
            await self._bulk.publish(Outgoing(topics.cancel(self.target.name, self._agent), payload))

    def _expire(self, now_s: float) -> None:
        for correlation, flight in list(self.flights.items()):
            if not flight.missed and now_s >= flight.overdue_s:
                flight.overdue_s = math.inf
                self._office.overdue(self.target.name, flight)
            if not flight.missed and now_s >= flight.question.settle_at_s:
                self._land(flight)
                flight.missed = True
                self._office.counters["missed"] += 1
                if not flight.cut_off:
                    self.circuit.missed()
            if now_s >= flight.question.settle_at_s + self._settings.late_s:
                del self.flights[correlation]

    def _way(self) -> Way:
        return Way(self.path, self.window, unanswered(self.flights.values()))

    def _drop_late(self) -> None:
        for question in self.waiting.drop_late(self._way(), self._clock.now_s()):
            self._give_up(question, "too_late_to_send", shed=True)

    def _may_send(self, camera: str) -> bool:
        return self.lanes[camera].in_flight < self._settings.in_flight

    async def _send_next(self, question: Question) -> None:
        self.waiting.withdraw(question.key.camera, self._clock.now_s())
        await self._send(question)

    def _used_at_s(self) -> float | None:
        """When it was used last; a way that is one of several is to be measured before its first use too."""
        return -math.inf if self._several and self.path.used_at_s is None else self.path.used_at_s

    def next_s(self, now_s: float) -> float:
        """When something is to be done here, should nothing happen before."""
        return min(self._moments(now_s))

    def _moments(self, now_s: float) -> Iterator[float]:
        yield from (flight.due_s(self._settings.late_s) for flight in self.flights.values())
        yield self.circuit.probe_at_s(self._used_at_s())
        yield self.waiting.look_again_at_s(self._way(), now_s)
