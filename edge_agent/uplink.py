"""The way to the cloud: requests out, answers in, never more than a bounded number under way.

Requests go out on their own session, so that a picture never stands before a result. Per camera at most a set number
is in flight, and in all no more than the way delivers soon; one more of each camera waits, and a newer one takes its
place. What the way costs is measured, and a circuit breaker keeps requests from a way that is down and probes it.
"""

import asyncio
import contextlib
import itertools
import math
import secrets
from collections import Counter
from collections.abc import Mapping

from edge_agent.lanes import BUSY, NO_ROUTE, Flight, Lane, silent, unanswered
from edge_agent.probes import ProbedCircuit
from edge_agent.questions import Answer, AnswerListener, Question, fits, request_message
from edge_agent.settings import UplinkSettings
from edge_agent.steer import Outlook, paced, round_trip
from edge_agent.waiting import WaitingRoom, Way
from edge_agent.workers import WorkerDirectory
from pipeline.policies.breaker import Circuit
from pipeline.policies.path import PathEstimate
from pipeline.policies.tokens import SharedBudget
from pipeline.policies.window import SendWindow
from pipeline.timing import Clock
from pipeline.transport.base import Message, PublishStatus, Transport
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_reply, decode_worker_state
from pipeline.wire.messages import Refusal


class Uplink:
    """See the module. ``bulk`` carries requests, ``control`` brings replies and announcements."""

    def __init__(self, agent: str, settings: UplinkSettings, bulk: Transport, control: Transport, clock: Clock) -> None:
        self._agent, self._settings, self._bulk, self._clock = agent, settings, bulk, clock
        self._lanes: dict[str, Lane] = {}
        self._weights: dict[str, float] = {}
        self._flights: dict[bytes, Flight] = {}
        self._session, self._numbers = secrets.token_bytes(4), itertools.count(1)
        # Raises ConfigError on a bad name now, not at the first request.
        self._circuit = ProbedCircuit(agent, settings, bulk, clock, self._circuit_changed)
        self._budget = self._full_budget()
        self.path = PathEstimate.holding(settings.probe_every_s)
        self.window = SendWindow()
        self._kick = asyncio.Event()
        self.waiting = WaitingRoom()
        self.workers = WorkerDirectory()
        self.counters: Counter[str] = Counter()
        control.subscribe(topics.reply(agent), self._on_reply)
        control.subscribe(topics.ANY_WORKER, self._on_worker, qos=1)

    def register(self, camera: str, listener: AnswerListener, *, weight: float = 1.0, patient: bool = False) -> None:
        """Open a camera's lane; once, before anybody asks. ``weight`` is its share of the budget, beside the others'.

        A ``patient`` camera's questions wait for their turn, for bytes and for a busy worker, and it with them.
        """
        self._lanes[camera], self._weights[camera] = Lane(listener, patient), weight
        self._budget = self._full_budget()

    def _full_budget(self) -> SharedBudget:
        settings = self._settings
        return SharedBudget.full(settings.uplink_kbps, settings.burst_s, self._weights, self._clock.now_s())

    @property
    def circuit(self) -> Circuit:
        return self._circuit.circuit

    def _circuit_changed(self) -> None:
        """What is under way when it opens is cut off; when it closes, no camera need wait for its next frame."""
        for flight in self._flights.values() if not self._circuit.closed else ():
            flight.cut_off = True
        for lane in self._lanes.values() if self._circuit.closed else ():
            lane.listener.reopened()
        self._kick.set()

    def bytes_per_s(self, camera: str) -> float:
        """What the camera has sent up lately."""
        return self._lanes[camera].rate.bytes_per_s(self._clock.now_s())

    def outlook(self, camera: str, deviations: float, expected_bytes: Mapping[str, float] | None = None) -> Outlook:
        """What a camera may expect now; a predicted round trip is the mean plus ``deviations`` deviations, for a
        request of the ``expected_bytes`` of its kind, or of the usual ones.
        """
        now_s, lane = self._clock.now_s(), self._lanes[camera]
        if not lane.patient:
            self._budget = paced(self._budget, self.path, self._settings, self._weights, now_s)
        reason = self._obstacle(now_s)
        if not reason and not lane.patient:
            reason = lane.held(now_s)
        tails = self.path.tails_ms(expected_bytes or {}, now_s, deviations)
        tokens_bytes, fill = self._budget.available_bytes(camera), self._budget.fill(camera)
        if lane.patient:  # it waits for bytes
            tokens_bytes = fill = None
        due_bytes_s = self._budget.due_bytes_s(camera)
        return Outlook(not reason, reason, tails, tokens_bytes, self.path, fill, self._settings.burst_s, due_bytes_s)

    def _obstacle(self, now_s: float) -> str:
        if not self._bulk.state.connected:
            return "broker_down"
        if not self.workers.serving(self._settings.tier, self._settings.model, now_s):
            return "no_worker"
        return "" if self._circuit.closed else "circuit_open"

    async def ask(self, question: Question) -> None:
        """Send a question, or let it wait for its turn. The listener hears of the outcome."""
        lane = self._lanes[question.key.camera]
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
                self._kick.set()
                if silent(self._flights.values()):
                    self._circuit.missed()

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
            self._budget = self._budget.at(now_s)
            held_s = max(0.0, lane.hold.until_s - now_s)
            wait_s = max(held_s, self._budget.wait_s(question.key.camera, len(question.jpeg)))
            if wait_s <= 0:
                return ""
            if now_s + wait_s > last_s:
                return "busy" if held_s == wait_s else "budget"
            await asyncio.sleep(max(0.01, wait_s))

    async def _send(self, question: Question) -> None:
        lane, now_s = self._lanes[question.key.camera], self._clock.now_s()
        budget_ms = (question.settle_at_s - now_s) * 1000
        if not self._circuit.closed or budget_ms <= 1.0:
            late = self._circuit.closed
            self._give_up(question, "too_late_to_send" if late else "circuit_open", shed=late)
            return
        correlation = self._session + next(self._numbers).to_bytes(8, "big")
        message = request_message(question, self._agent, self._settings, correlation, budget_ms)
        size_bytes = len(message.payload)
        departure = self.window.departs(size_bytes, sum(self._way().unanswered), now_s)
        self._flights[correlation] = Flight(question, now_s, size_bytes, self.path.ahead_bytes(now_s), departure)
        lane.in_flight += 1
        status = await self._bulk.publish(message)
        if status is not PublishStatus.SENT:
            self._not_sent(correlation, status)
            return
        p95_ms = self.path.p95_ms(now_s, size_bytes, question.kind)
        self.path = self.path.sent(size_bytes, now_s)
        self._budget = self._budget.at(now_s).take(question.key.camera, size_bytes)
        self.waiting.sent(question.key.camera, size_bytes, self._way(), now_s)
        lane.rate.add(now_s, size_bytes)
        lane.listener.sent(question, size_bytes, p95_ms)
        self.counters["sent"] += 1
        self._kick.set()

    def _not_sent(self, correlation: bytes, status: PublishStatus) -> None:
        flight = self._flights.pop(correlation, None)
        if flight is None:
            return  # publishing took so long that the question has expired meanwhile
        self._land(flight)
        if status is PublishStatus.BACKLOG:
            self._circuit.backed_up()
        elif status is PublishStatus.NOT_CONNECTED and not flight.missed:
            self._circuit.missed()
        self._give_up(flight.question, status.value, shed=status is PublishStatus.BACKLOG)

    def _give_up(self, question: Question, reason: str, *, shed: bool) -> None:
        self.counters[reason] += 1
        self._lanes[question.key.camera].listener.not_answered(question.key, reason, shed=shed)

    def _on_worker(self, message: Message) -> None:
        state = decode_worker_state(message.payload)
        if isinstance(state, BadPayload):
            self.counters["bad_worker_state"] += 1
            return
        self.workers.heard(state, self._clock.now_s())
        self._circuit.look_again()
        self._kick.set()

    def _on_reply(self, message: Message) -> None:
        flight = self._flights.pop(message.correlation, None) if message.correlation and not message.retain else None
        if flight is None:
            self._echoed(message)
            return
        now_s = self._clock.now_s()
        self._land(flight)
        if not flight.cut_off:
            self.window = self.window.arrived(flight.size_bytes, flight.departure, now_s)
        reply = decode_reply(message.payload)
        if isinstance(reply, BadPayload) or not fits(reply, flight.question, self._agent):
            self._circuit.refused()
            self._give_up(flight.question, "bad_reply", shed=False)
            return
        if reply.refused is not None:
            self._refused(flight, reply.refused, now_s)
            return
        round_trip_ms = (now_s - flight.sent_at_s) * 1000
        if not flight.cut_off:
            self.path = self.path.answered(
                round_trip(flight.question.kind, flight.size_bytes, flight.ahead_bytes, round_trip_ms, reply), now_s
            )
        self._circuit.answered()
        lane = self._lanes[flight.question.key.camera]
        lane.hold = lane.hold.answered()
        self.counters["late" if flight.missed else "answered"] += 1
        network_ms = max(0.0, round_trip_ms - reply.total_ms)
        lane.listener.answered(Answer(flight.question, reply, round_trip_ms, network_ms))

    def _echoed(self, message: Message) -> None:
        """Take in a reply to no question; the echo of a probe, as a rule."""
        probe = None if message.retain else self._circuit.echoed(message.correlation, message.payload)
        self.counters["unexpected_reply" if probe is None else "echoes"] += 1
        now_s = self._clock.now_s()
        if probe is not None and probe.measures(now_s):
            self.path = self.path.probed(probe.size_bytes, 0.0, (now_s - probe.sent_at_s) * 1000, now_s)

    def _refused(self, flight: Flight, refusal: Refusal, now_s: float) -> None:
        down = refusal in NO_ROUTE
        (self._circuit.refused if down else self._circuit.answered)()
        self.counters[f"refused_{refusal.value}"] += 1
        lane = self._lanes[flight.question.key.camera]
        if refusal in BUSY and not flight.missed:
            lane.hold = lane.hold.refused(now_s)
            self._displace(self.waiting.withdraw(flight.question.key.camera, now_s), "busy")
        lane.listener.not_answered(flight.question.key, refusal.value, shed=not down)

    def _land(self, flight: Flight) -> None:
        """Free the place of a flight that has not been given up before."""
        if not flight.missed:
            lane = self._lanes[flight.question.key.camera]
            lane.in_flight -= 1
            lane.landed.set()
        self._kick.set()

    async def run(self) -> None:
        """Watch over the flights: miss what is late, forget what is useless, send what waits. Until cancelled."""
        while True:
            self._kick.clear()
            now_s = self._clock.now_s()
            self._expire(now_s)
            await self._circuit.probe(self.path.used_at_s)
            self._drop_late()
            await self._send_waiting()
            await self._until_next(now_s)

    def _expire(self, now_s: float) -> None:
        for correlation, flight in list(self._flights.items()):
            if not flight.missed and now_s >= flight.question.settle_at_s:
                self._land(flight)
                flight.missed = True
                self.counters["missed"] += 1
                if not flight.cut_off:
                    self._circuit.missed()
            if now_s >= flight.question.settle_at_s + self._settings.late_s:
                del self._flights[correlation]

    def _way(self) -> Way:
        return Way(self.path, self.window, unanswered(self._flights.values()))

    def _drop_late(self) -> None:
        for question in self.waiting.drop_late(self._way(), self._clock.now_s()):
            self._give_up(question, "too_late_to_send", shed=True)

    def _may_send(self, camera: str) -> bool:
        return self._lanes[camera].in_flight < self._settings.in_flight

    async def _send_waiting(self) -> None:
        while (question := self.waiting.first(self._way(), self._may_send)) is not None:
            await self._send_next(question)

    async def _send_next(self, question: Question) -> None:
        self.waiting.withdraw(question.key.camera, self._clock.now_s())
        await self._send(question)

    async def _until_next(self, now_s: float) -> None:
        moments = [flight.due_s(self._settings.late_s) for flight in self._flights.values()]
        moments += [self._circuit.probe_at_s(self.path.used_at_s), self.waiting.look_again_at_s(self._way(), now_s)]
        wake_at_s = min(moments)
        wait_s = None if wake_at_s == math.inf else max(0.001, wake_at_s - now_s)
        with contextlib.suppress(TimeoutError):
            # Not wait_for: before Python 3.12 it can swallow a cancellation that comes with the event.
            async with asyncio.timeout(wait_s):
                await self._kick.wait()
