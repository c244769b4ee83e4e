"""One camera's requests over three tiers, on virtual time: the estimates, choices and moves of the product's own code.

What is simulated is the world (``tier_world``). Paths are learned from answers and from an echo a second where nobody
asks; announcements come with the heartbeat, and sooner when the wait has changed much.
"""

import math
from dataclasses import dataclass, field, replace

from foveate.bench.tier_world import (
    CHARACTERS,
    DEADLINE_MS,
    REMAINING_MS,
    REPLY_BYTES,
    SMALL_SHORTFALL,
    WARM_UP_S,
    Character,
    Scene,
    Served,
    Server,
    hops,
)
from foveate.simulation.events import EventLoop
from foveate.simulation.roads import Hop
from pipeline.metrics.little import QueueMeter
from pipeline.policies.fallback import WaitSettings, wait
from pipeline.policies.migration import InFlight, TargetHealth, move
from pipeline.policies.open_requests import Left, OpenRequests, Word
from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.tier_cost import Arrival, Expense, mean_shortfall
from pipeline.policies.tier_offers import Announced, Ask, Offer, latency, wait_changed
from pipeline.policies.tiers import Held, Plan, TierSelector

_MODEL = frozenset({"large"})
_ECHO_EVERY_S, _ECHO_BYTES = 1.0, 200
_BEAT_S, _LOOK_S, _MISSED_BEATS = 5.0, 1.0, 3
_HOLDS_S = 2.0
"""What is known of a path is believed until the second echo is missing."""


@dataclass(slots=True)
class Request:
    """One request and what became of it. ``arrivals`` are its answers in order, with the one that it fell back to."""

    number: int
    asked_s: float
    size_bytes: float
    plan: Plan
    billed_bytes: float = 0.0
    energy_j: float = 0.0
    arrivals: list[Arrival] = field(default_factory=list)
    fell_back: bool = False
    asked: list[str] = field(default_factory=list)

    @property
    def expense(self) -> Expense:
        """What it took in the end."""
        lacking = mean_shortfall(self.arrivals[0], self.arrivals[-1], REMAINING_MS)
        return Expense(self.arrivals[0].at_ms, self.billed_bytes, self.energy_j, lacking)


@dataclass(slots=True)
class _Flight:
    request: Request
    way: "_Way"
    stage: int
    sent_s: float
    ahead_bytes: float
    done: bool = False


@dataclass(slots=True)
class _Way:
    """A target, and what the agent knows of it."""

    it: Character
    server: Server
    up: Hop
    down: Hop
    path: PathEstimate = field(default_factory=lambda: PathEstimate.holding(_HOLDS_S))
    health: TargetHealth = field(default_factory=TargetHealth)
    announced: Announced = field(default_factory=Announced)
    beat_s: float = 0.0
    used_s: float = -math.inf
    meter: QueueMeter = field(default_factory=lambda: QueueMeter(10.0, 10))

    def offer(self, size_bytes: float, now_s: float) -> Offer:
        it = self.it
        expected = latency(self.path, self.announced, size_bytes, now_s)
        closed = self.health.closed(now_s)
        return Offer(
            it.target, it.tier, _MODEL, math.inf, expected, it.energy_j, it.transfer_cost, it.shortfall, closed
        )

    def look(self, now_s: float) -> None:
        """Judge by heartbeats, and by what is under way."""
        missed = now_s - self.beat_s > _MISSED_BEATS * _BEAT_S
        self.health = self.health.present("no heartbeat" if missed else "", now_s)
        flow, forecast = self.meter.flow(now_s), self.path.forecast(self.path.usual_bytes, now_s)
        load = InFlight(flow.length, flow.arrivals_per_s, None if forecast is None else forecast.mean_ms)
        self.health = self.health.measured(load, now_s)


class Stand:
    """A run. ``moving``: whether requests leave a target that fails; else only predictions keep them away from it."""

    def __init__(self, scene: Scene, selector: TierSelector, *, moving: bool = True) -> None:
        self._scene, self._selector, self._moving = scene, selector, moving
        self._loop = EventLoop()
        self._ways = {it.target: _Way(it, Server(it, scene), *hops(it, scene)) for it in CHARACTERS}
        self._open: OpenRequests[int] = OpenRequests()
        self._held = Held()
        self.requests: list[Request] = []
        self.switches = 0

    def run(self) -> "Stand":
        """Let all requests of the scene come and end."""
        for way in self._ways.values():
            self._beat(way)
            self._echo(way)
        for number, at_s in enumerate(self._scene.times_s()):
            self._loop.at(at_s, self._begin, number)
        self._loop.run(WARM_UP_S + self._scene.duration_s + 5.0)
        counts = self._open.counts()
        if counts.in_flight or counts.asked != len(self.requests):
            raise RuntimeError(f"the account of requests does not balance: {counts}")
        return self

    def _begin(self, number: int) -> None:
        now_s, size_bytes = self._loop.now_s, self._scene.size_bytes(number)
        for way in self._ways.values() if self._moving else ():
            way.look(now_s)
        offers = [way.offer(size_bytes, now_s) for way in self._ways.values()]
        choice = self._selector.select(self._ask(size_bytes, REMAINING_MS), offers, self._held, now_s)
        self.switches += bool(self._held.plan) and choice.held.plan != self._held.plan
        self._held = choice.held
        request = Request(number, now_s, size_bytes, choice.plan)
        self.requests.append(request)
        self._open.ask(number, now_s + REMAINING_MS / 1000)
        for stage, target in enumerate(choice.plan, 1):
            self._send(request, target, stage)
        if choice.plan:
            self._loop.at(now_s + REMAINING_MS / 1000, self._expire)
        else:
            self._fall_back(request)

    @staticmethod
    def _ask(size_bytes: float, remaining_ms: float) -> Ask:
        return Ask(_MODEL, size_bytes, DEADLINE_MS, remaining_ms, stands=SMALL_SHORTFALL)

    def _send(self, request: Request, target: str, stage: int) -> None:
        way, now_s = self._ways[target], self._loop.now_s
        self._open.owes(request.number, target, stage)
        request.asked.append(target)
        request.billed_bytes += request.size_bytes * way.it.transfer_cost
        flight = _Flight(request, way, stage, now_s, way.path.ahead_bytes(now_s))
        until_s = request.asked_s + REMAINING_MS / 1000
        patience = wait(now_s, until_s, way.path.p95_ms(now_s, request.size_bytes), WaitSettings())
        way.path = way.path.sent(request.size_bytes, now_s)
        way.used_s = now_s
        way.meter.arrived(now_s)
        self._loop.at(way.up.transmit(int(request.size_bytes), now_s), self._arrive, flight)
        self._loop.at(patience.until_s, self._overdue, flight)

    def _arrive(self, flight: _Flight) -> None:
        request, now_s = flight.request, self._loop.now_s
        budget_s = REMAINING_MS / 1000 - (flight.sent_s - request.asked_s)  # counts from the arrival, as on the wire
        served = flight.way.server.offer(request.number, budget_s, now_s)
        if served is None:
            return
        if not served.refused:
            request.energy_j += flight.way.it.energy_j
        self._loop.at(served.at_s, self._return, (flight, served))

    def _return(self, served: tuple[_Flight, Served]) -> None:
        way = served[0].way
        self._loop.at(way.down.transmit(REPLY_BYTES, self._loop.now_s), self._replied, served)

    def _replied(self, reply: tuple[_Flight, Served]) -> None:
        (flight, served), now_s = reply, self._loop.now_s
        way, request = flight.way, flight.request
        self._land(flight)
        if served.refused:
            way.health = way.health.refused(now_s) if self._moving else way.health
            self._elsewhere(flight, refused=True)
            return
        trip_ms = (now_s - flight.sent_s) * 1000
        way.path = way.path.answered(
            RoundTrip("mosaic", request.size_bytes, flight.ahead_bytes, trip_ms, served.queue_ms, served.run_ms), now_s
        )
        way.health = way.health.answered()
        word = self._open.answered(request.number, way.it.target, now_s)
        if word is not Word.UNEXPECTED:
            request.arrivals.append(Arrival((now_s - request.asked_s) * 1000, way.it.shortfall))

    def _overdue(self, flight: _Flight) -> None:
        if flight.done or not self._moving:
            return
        flight.way.health = flight.way.health.overdue(self._loop.now_s)
        self._loop.at(flight.request.asked_s + 2.0, self._land, flight)  # forgotten
        self._elsewhere(flight, refused=False)

    def _elsewhere(self, flight: _Flight, *, refused: bool) -> None:
        """Ask another target what this one owes, where that can be in time."""
        request, now_s = flight.request, self._loop.now_s
        if flight.way.it.target in self._open.owing(request.number) and self._moving:
            remaining_ms = REMAINING_MS - (now_s - request.asked_s) * 1000
            offers = [w.offer(request.size_bytes, now_s) for t, w in self._ways.items() if t not in request.asked]
            ask = self._ask(request.size_bytes, remaining_ms)
            if request.arrivals:
                ask = replace(ask, stands=request.arrivals[-1].shortfall)
            for target in move(ask, flight.way.it.tier, offers, self._selector, now_s).plan:
                self._send(request, target, flight.stage)
        if refused and self._open.withdrawn(request.number, flight.way.it.target) is Left.NOBODY:
            self._fall_back(request)

    def _fall_back(self, request: Request) -> None:
        """What the small model has found stands."""
        self._open.fall_back(request.number)
        request.fell_back = True
        request.arrivals.append(Arrival((self._loop.now_s - request.asked_s) * 1000, SMALL_SHORTFALL))

    def _land(self, flight: _Flight) -> None:
        if not flight.done:
            flight.done = True
            flight.way.meter.left(self._loop.now_s, self._loop.now_s - flight.sent_s)

    def _expire(self, _: None) -> None:
        for number in self._open.expire(self._loop.now_s):
            if not self.requests[number].arrivals:
                self._fall_back(self.requests[number])

    def _beat(self, way: _Way) -> None:
        """An announcement, if it is time for one or the wait has changed much since the last."""
        now_s = self._loop.now_s
        if not way.server.alive(now_s):
            return
        wait_ms = way.server.wait_ms(now_s)
        if now_s - way.beat_s >= _BEAT_S or wait_changed(way.announced.wait_ms, wait_ms):
            way.beat_s, way.announced = now_s, Announced(1.2 * way.it.run_ms, wait_ms)
        self._loop.at(now_s + _LOOK_S, lambda _: self._beat(way))

    def _echo(self, way: _Way) -> None:
        now_s = self._loop.now_s
        self._loop.at(now_s + _ECHO_EVERY_S, lambda _: self._echo(way))
        if now_s - way.used_s < _ECHO_EVERY_S:
            return

        def back(_: None) -> None:
            way.path = way.path.probed(_ECHO_BYTES, 0.0, (self._loop.now_s - now_s) * 1000, self._loop.now_s)

        def there(_: None) -> None:
            if way.server.alive(self._loop.now_s):
                self._loop.at(way.down.transmit(_ECHO_BYTES, self._loop.now_s), back)

        self._loop.at(way.up.transmit(_ECHO_BYTES, now_s), there)
