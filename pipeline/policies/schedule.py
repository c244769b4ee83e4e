"""Which waiting work goes next, and which gives way in time: decided from deadlines, weights and what each flow had.

The same decision serves a worker's queue, an uplink's queue and the simulator. *Hopeless* is work that cannot be in
time even if it went next; a flow is what is treated fairly, a camera as a rule.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

_LEAST_WEIGHT = 1e-6
"""A weight of nothing still has a place, after all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One piece of waiting work. ``number`` rises with every arrival and is its name; times are monotonic seconds.

    Work of one ``kind`` takes the same time: model and picture size at a worker, bytes on a link.
    """

    number: int
    flow: Hashable
    kind: Hashable
    arrived_s: float
    deadline_s: float
    weight: float = 1.0

    @property
    def priority(self) -> float:
        """Weight / latency budget, in 1/s."""
        return self.weight / max(self.deadline_s - self.arrived_s, 1e-3)


@dataclass(frozen=True, slots=True)
class Service:
    """What the server is expected to need, in seconds.

    ``free_s`` until it is free; ``together_s(kind, n)`` for ``n`` of a kind one after another or in batches (median; 0
    while unknown); ``alone_s(kind)`` for one by itself, carefully, as a promise (None while unknown).
    """

    free_s: float
    together_s: Callable[[Hashable, int], float]
    alone_s: Callable[[Hashable], float | None]


class DropReason(StrEnum):
    """Why waiting work is given up before it has cost anything."""

    HOPELESS = "hopeless"  # not in time even if it went next
    OUTWEIGHED = "outweighed"  # not everything can be in time, and its flow has had more than others


@dataclass(frozen=True, slots=True)
class Drop:
    """Work to give up now, and the figures: its own ``alone_s`` and ``left_s``, the time to do it and to its deadline.

    ``ahead_s`` is what must be waited for: until the server is free, or until the turn of what would have been late.
    """

    ticket: Ticket
    reason: DropReason
    ahead_s: float
    alone_s: float
    left_s: float


@dataclass(slots=True)
class Accounts:
    """The seconds of service that each flow has had, forgotten exponentially over ``memory_s``; bounded in flows.

    An account stands in for the deficit counter of deficit round robin (Shreedhar and Varghese, IEEE/ACM ToN 1996): the
    flow furthest behind per weight comes first. Unlike the counter it outlives an empty queue, because work that gives
    way leaves the queue empty; that it decays keeps idle time from being saved up.
    """

    memory_s: float = 10.0
    most_flows: int = 4096
    charged_at_s: float = 0.0
    """When anything was charged last. All accounts fade alike, so how they compare has not changed since."""
    _had: OrderedDict[Hashable, tuple[float, float]] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._had)

    def had_s(self, flow: Hashable, now_s: float) -> float:
        """What a flow has had lately."""
        amount_s, at_s = self._had.get(flow, (0.0, now_s))
        return amount_s * math.exp(min(0.0, at_s - now_s) / self.memory_s)

    def charge(self, flow: Hashable, service_s: float, now_s: float) -> None:
        """A flow was served for so long; beyond the bound the flow that was served longest ago is forgotten."""
        self.charged_at_s = max(self.charged_at_s, now_s)
        self._had[flow] = self.had_s(flow, self.charged_at_s) + service_s, self.charged_at_s
        self._had.move_to_end(flow)
        if len(self._had) > self.most_flows:
            self._had.popitem(last=False)


class Scheduling(Protocol):
    """The order of waiting work and what of it is given up. ``by_account``: what a flow has had changes its rank."""

    @property
    def by_account(self) -> bool: ...

    def rank(self, ticket: Ticket, had_s: float) -> tuple[float, ...]:
        """The lower the sooner; ``had_s`` is the account of the ticket's flow."""
        ...

    def drops(self, ordered: Sequence[Ticket], accounts: Accounts, service: Service, now_s: float) -> list[Drop]:
        """What to give up now, of all that waits, in the order of rank."""
        ...


class Fifo:
    """First come, first served, however late; the baseline that knows no deadlines."""

    by_account = False

    def rank(self, ticket: Ticket, had_s: float) -> tuple[float, ...]:
        del had_s
        return (ticket.number,)

    def drops(self, ordered: Sequence[Ticket], accounts: Accounts, service: Service, now_s: float) -> list[Drop]:
        del ordered, accounts, service, now_s
        return []


class EarliestDeadline(Fifo):
    """Earliest deadline first (Liu and Layland, JACM 1973) and no more: past saturation everything becomes late."""

    def rank(self, ticket: Ticket, had_s: float) -> tuple[float, ...]:
        del had_s
        return ticket.deadline_s, ticket.number


@dataclass(frozen=True, slots=True)
class WeightedEarliestDeadline:
    """Earliest deadline first by steps of ``slack_class_s``, with weights, fairness and early drop.

    Deadlines within one step count as equal slack: there the flow goes first that has had least for its weight, as in
    deficit round robin; then the higher priority (weight / latency budget), then the earlier deadline.

    What cannot all be in time is thinned out as by Moore (Management Science 1968): in the order of service, at the
    first work that would be late, one piece up to there gives way. With equal run times any choice keeps the most work
    in time; we take that of the flow that has had most for its weight, where Moore takes the longest. So every flow has
    a share by its weight, however tight its deadlines, and starvation is bounded: between two services of a flow that
    always has feasible work waiting, each other flow is served at most 1 + (its share of what the first had) times.
    """

    slack_class_s: float = 0.01
    by_account: ClassVar[bool] = True

    def rank(self, ticket: Ticket, had_s: float) -> tuple[float, ...]:
        slack_class = math.floor(ticket.deadline_s / self.slack_class_s)
        return slack_class, had_s / _weight(ticket), -ticket.priority, ticket.deadline_s, ticket.number

    def drops(self, ordered: Sequence[Ticket], accounts: Accounts, service: Service, now_s: float) -> list[Drop]:
        plan = _Plan(ordered, accounts, service, now_s)
        for ticket in ordered:
            plan.take(ticket)
        return plan.drops


class _Plan:
    """The work that can be in time, built up in the order of service."""

    def __init__(self, ordered: Sequence[Ticket], accounts: Accounts, service: Service, now_s: float) -> None:
        self.drops: list[Drop] = []
        self._accounts, self._service, self._now_s = accounts, service, now_s
        self._waiting: Sequence[Ticket] = ordered
        self._kept: dict[int, Ticket] = {}
        self._counts: Counter[Hashable] = Counter()
        self._ahead_s = service.free_s
        self._standings: dict[Hashable, float] | None = None

    def take(self, ticket: Ticket) -> None:
        """Plan for one more, and name what gives way where it would be late."""
        left_s, alone_s = ticket.deadline_s - self._now_s, self._service.alone_s(ticket.kind)
        needs_s = alone_s or 0.0
        if left_s <= 0 or self._service.free_s + needs_s > left_s:
            self._drop(ticket, DropReason.HOPELESS, self._service.free_s)
            return
        late_s = self._ahead_s + needs_s - left_s
        if alone_s is not None and late_s > 0:
            gives_way = self._furthest_ahead(ticket, late_s)
            self._drop(gives_way, DropReason.OUTWEIGHED, self._ahead_s)
            if gives_way is ticket:
                return
        self._keep(ticket)

    def _furthest_ahead(self, late: Ticket, late_s: float) -> Ticket:
        """Of all whose leaving brings the late one in time, itself among them, that of the flow that has had most."""
        saved_s = {kind: self._last_of(kind) for kind in self._counts}
        enough = [ticket for ticket in self._kept.values() if saved_s[ticket.kind] >= late_s]
        return max((*enough, late), key=self._standing)

    def _standing(self, ticket: Ticket) -> tuple[float, ...]:
        if self._standings is None:
            self._standings = {t.flow: self._accounts.had_s(t.flow, self._now_s) for t in self._waiting}
            for waiting in self._waiting:
                self._standings[waiting.flow] += self._service.together_s(waiting.kind, 1)
            for drop in self.drops:
                self._standings[drop.ticket.flow] -= self._service.together_s(drop.ticket.kind, 1)
        return self._standings[ticket.flow] / _weight(ticket), -ticket.priority, ticket.deadline_s, ticket.number

    def _keep(self, ticket: Ticket) -> None:
        self._kept[ticket.number] = ticket
        self._counts[ticket.kind] += 1
        self._ahead_s += self._last_of(ticket.kind)

    def _drop(self, ticket: Ticket, reason: DropReason, ahead_s: float) -> None:
        left_s, alone_s = ticket.deadline_s - self._now_s, self._service.alone_s(ticket.kind) or 0.0
        self.drops.append(Drop(ticket, reason, ahead_s, alone_s, left_s))
        if self._standings is not None:
            self._standings[ticket.flow] -= self._service.together_s(ticket.kind, 1)
        if self._kept.pop(ticket.number, None) is not None:
            self._ahead_s -= self._last_of(ticket.kind)
            self._counts[ticket.kind] -= 1

    def _last_of(self, kind: Hashable) -> float:
        """What the last one of a kind adds to the time for all."""
        count, together_s = self._counts[kind], self._service.together_s
        return together_s(kind, count) - together_s(kind, count - 1) if count else 0.0


def _weight(ticket: Ticket) -> float:
    return max(ticket.weight, _LEAST_WEIGHT)


SCHEDULING_KINDS: Mapping[str, Callable[[], Scheduling]] = {
    "edf_weighted": WeightedEarliestDeadline,
    "edf": EarliestDeadline,
    "fifo": Fifo,
}
"""The ways of scheduling by name."""
