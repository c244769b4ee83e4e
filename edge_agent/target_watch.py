"""How one target stands: what its workers announce, whether it keeps up, and what it offers for a request."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from edge_agent.lanes import BUSY
from edge_agent.target_figures import TargetFigures
from edge_agent.target_link import TargetLink
from edge_agent.workers import KnownWorker
from pipeline.metrics.windows import SlidingWindow
from pipeline.policies.migration import InFlight, TargetHealth
from pipeline.policies.tier_cost import Tier
from pipeline.policies.tier_offers import Announced, Offer, latency
from pipeline.wire.messages import Refusal, WorkerState

TRANSFER_COSTS = {Tier.DEVICE: 0.0, Tier.EDGE: 0.0, Tier.CLOUD: 1.0}
"""What a byte to a tier counts where its workers do not say so: what stays on site crosses no budgeted uplink."""


class TargetWatch:
    """Watches one target. ``shortfall`` is the part of the best F1 that its answers lack."""

    def __init__(self, link: TargetLink, shortfall: float) -> None:
        self.link, self.shortfall = link, shortfall
        self.health = TargetHealth()
        self.workers: Sequence[KnownWorker] = ()
        self._sent = SlidingWindow(10.0, 1024)

    def look(self, workers: Sequence[KnownWorker], now_s: float) -> None:
        """Take in which workers are online, and judge by what is under way."""
        self.workers = workers
        self.health = self.health.present("" if workers else "no_worker", now_s).measured(self._load(now_s), now_s)

    def _load(self, now_s: float) -> InFlight:
        """What is under way, each expected to take as long as the slowest kind of them."""
        flying = [flight for flight in self.link.flights.values() if not flight.missed]
        by_kind_ms = [self._expected_ms(kind, now_s) for kind in {flight.question.kind for flight in flying}]
        known_ms = [each_ms for each_ms in by_kind_ms if each_ms is not None]
        if not known_ms or len(known_ms) < len(by_kind_ms):
            return InFlight(len(flying), self._sent.rate(now_s), None)
        expected_ms = max(known_ms)
        young = sum((now_s - flight.sent_at_s) * 1000 < expected_ms for flight in flying)
        return InFlight(len(flying), self._sent.rate(now_s), expected_ms, young)

    def _expected_ms(self, kind: str, now_s: float) -> float | None:
        """What a usual question of a kind takes; None where nothing fresh is known of the way or of a run's time."""
        path, announced = self.link.path, self._announced([known.state for known in self.workers])
        if announced.run_ms is None and not path.knows_worker(kind, now_s):
            return None  # echoes alone say what the way takes, and nothing of the work
        expected = latency(path, announced, path.usual_bytes, now_s, kind=kind)
        return None if expected is None else expected.mean_ms

    def sent(self, now_s: float) -> None:
        """A request went out."""
        self._sent.add(1.0, now_s)

    def answered(self) -> None:
        """An answer came."""
        self.health = self.health.answered()

    def overdue(self, now_s: float) -> None:
        """An answer is overdue."""
        self.health = self.health.overdue(now_s)

    def refused(self, refusal: Refusal, now_s: float) -> None:
        """A refusal came: for want of time or room, or because a worker can do nothing for anybody."""
        if refusal in BUSY or refusal is Refusal.FAILED:
            self.health = self.health.refused(now_s)
        elif refusal in (Refusal.STOPPING, Refusal.UNKNOWN_MODEL):
            self.health = self.health.refused(now_s, for_good=True)

    @property
    def transfer_cost(self) -> float:
        """What a byte to it counts."""
        told = _mean(known.state.transfer_cost for known in self.workers)
        return TRANSFER_COSTS[self.link.target.tier] if told is None else told

    def hindrance(self, *, connected: bool) -> str:
        """Why nothing can be sent there; empty where something can."""
        if not connected:
            return "broker_down"
        if not self.workers:
            return "no_worker"
        return "" if self.link.circuit.closed else "circuit_open"

    def offer(
        self, camera: str, request: tuple[str, float], now_s: float, *, connected: bool, in_need: bool = False
    ) -> Offer:
        """What it would take to answer a camera's request of a kind and so many bytes; ``in_need`` also where it has
        failed lately.
        """
        kind, size_bytes = request
        target, states = self.link.target, [known.state for known in self.workers]
        closed = self.hindrance(connected=connected) or ("" if in_need else self.health.closed(now_s))
        return Offer(
            target=target.name,
            tier=target.tier,
            models=frozenset({target.model}),
            room=_room(states),
            latency=latency(self.link.path, self._announced(states), size_bytes, now_s, kind=kind),
            energy_j=_mean(state.energy_j for state in states) or 0.0,
            transfer_cost=self.transfer_cost,
            shortfall=self.shortfall,
            closed=closed or self.link.lanes[camera].held(now_s),
        )

    def figures(self, closed: str, now_s: float) -> TargetFigures:
        """What is shown of it; ``closed`` as there."""
        link, target = self.link, self.link.target
        expected = latency(link.path, self._announced([k.state for k in self.workers]), link.path.usual_bytes, now_s)
        return TargetFigures(
            target=target.name,
            tier=target.tier,
            location=target.location,
            model=target.model,
            workers=len(self.workers),
            closed=closed,
            round_trip_ms=None if expected is None else expected.mean_ms,
            in_flight=sum(not flight.missed for flight in link.flights.values()),
            asked=link.counters["asked"],
            answered=link.counters["answered"],
            refused=link.counters["refused"],
            moved=link.counters["moved"],
            bytes_up=link.counters["bytes_up"],
        )

    def _announced(self, states: Sequence[WorkerState]) -> Announced:
        model = self.link.target.model
        runs_ms = [state.run_ms_p95[model] for state in states if model in state.run_ms_p95]
        return Announced(max(runs_ms, default=None), _mean(state.wait_ms for state in states))


def _room(states: Sequence[WorkerState]) -> float:
    """How many requests more its queues hold; without limit where one does not say so."""
    if any(state.queue_capacity == 0 for state in states):
        return math.inf
    return float(sum(max(0, state.queue_capacity - state.queue_length) for state in states))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
