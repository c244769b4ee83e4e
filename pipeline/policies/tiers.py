"""Which tier answers a request: what can, may, and would be in time, and of that what costs least.

Capacity first, the deadline as a hard bound, then the least weighted cost (``tier_cost``). Plans are few enough to be
compared one by one, as VideoEdge compares configurations (Hung et al., SEC 2018). A plan has one stage, or two: a quick
answer and a better one after it, both asked at once and both under the request's one deadline. Hysteresis and a dwell
time keep the choice from flapping; a plan that can no longer be carried out is left at once.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from pipeline.policies.tier_cost import (
    NEAREST_FIRST,
    PRESETS,
    Allowance,
    Arrival,
    Expense,
    Tier,
    Weights,
    cost,
    mean_shortfall,
)
from pipeline.policies.tier_offers import Ask, NotTaken, Offer, Why, billed_bytes, obstacle

Plan = tuple[str, ...]
"""Targets in the order in which they will answer; empty where nobody is asked."""


@dataclass(frozen=True, slots=True)
class Held:
    """The plan of one flow of requests, and since when."""

    plan: Plan = ()
    since_s: float = float("-inf")


class Reason(StrEnum):
    """Why a plan was chosen."""

    LEAST_COST = "least_cost"
    HELD = "held"  # another one is cheaper, but not by enough or not for long enough
    ONLY = "only"  # no other target could
    TRIED = "tried"  # nothing known is in time, and of this nothing is known
    NOT_WORTH = "not_worth"  # the answer that stands is good enough, at these costs
    NOBODY = "nobody"  # nobody can


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan for one request, why, at what cost (0 for nobody), and why each other target has no part in it.

    ``leaving_bytes`` of the request leave the site. ``held`` is for the flow's next request.
    """

    plan: Plan
    reason: Reason
    cost: float
    not_taken: Mapping[str, NotTaken]
    leaving_bytes: float
    held: Held


@dataclass(frozen=True, slots=True)
class TierSettings:
    """Another plan is taken where it costs less than ``factor`` of the present one, and ``dwell_s`` after the last
    change at the earliest. ``two_stage``: whether a quick answer and a better one after it may both be asked for.
    """

    weights: Weights = PRESETS["balanced"]
    allowance: Allowance = field(default_factory=Allowance)
    factor: float = 0.85
    dwell_s: float = 3.0
    two_stage: bool = True


class TierSelector(Protocol):
    """Chooses who answers a request; ``held`` is what the last choice of the same flow handed back."""

    def select(self, ask: Ask, offers: Sequence[Offer], held: Held, now_s: float) -> Choice: ...


def _plans(ask: Ask, offers: Sequence[Offer], settings: TierSettings) -> list[tuple[Offer, ...]]:
    """All plans of targets that can: each alone and, where two stages may be, each with a slower and better one; and
    nobody, where an answer stands.
    """
    plans: list[tuple[Offer, ...]] = [(offer,) for offer in offers]
    if plans and ask.stands is not None:
        plans.append(())
    if not settings.two_stage or ask.most_stages < 2:
        return plans
    for first, second in itertools.permutations(offers, 2):
        room = ask.tokens_bytes is None or billed_bytes(ask, first) + billed_bytes(ask, second) <= ask.tokens_bytes
        if _mean_ms(first) < _mean_ms(second) and second.shortfall < first.shortfall and room:
            plans.append((first, second))
    return plans


def _expense(ask: Ask, plan: Sequence[Offer]) -> Expense:
    """What a plan takes: the latency of its first answer, all bytes and joules, and what its answers lack."""
    arrivals = [Arrival(_mean_ms(offer), offer.shortfall) for offer in plan] or [Arrival(0.0, ask.stands or 0.0)]
    return Expense(
        latency_ms=arrivals[0].at_ms,
        billed_bytes=sum(billed_bytes(ask, offer) for offer in plan),
        energy_j=sum(offer.energy_j for offer in plan),
        shortfall=mean_shortfall(arrivals[0], arrivals[-1], ask.remaining_ms),
    )


def _mean_ms(offer: Offer) -> float:
    return 0.0 if offer.latency is None else offer.latency.mean_ms


def _names(plan: Sequence[Offer]) -> Plan:
    return tuple(offer.target for offer in plan)


@dataclass(frozen=True, slots=True)
class _Survey:
    """What can be done about a request: its obstacles by target, and who has none."""

    obstacles: dict[str, NotTaken]
    able: tuple[Offer, ...]
    tried: bool = False

    @classmethod
    def of(cls, ask: Ask, offers: Sequence[Offer]) -> "_Survey":
        found = {offer.target: obstacle(ask, offer) for offer in offers}
        obstacles = {target: why for target, why in found.items() if why is not None}
        able = tuple(offer for offer in offers if offer.target not in obstacles)
        known = tuple(offer for offer in able if offer.latency is not None)
        if known:
            obstacles |= {offer.target: NotTaken(Why.UNKNOWN) for offer in able if offer.latency is None}
        return cls(obstacles, known or able, bool(able) and not known)

    def choice(self, plan: tuple[Offer, ...], reason: Reason, ask: Ask, held: Held, now_s: float) -> Choice:
        """A choice without its cost and without what the others would have cost."""
        leaving_bytes = ask.size_bytes * sum(offer.tier is Tier.CLOUD for offer in plan)
        now_held = held if held.plan == _names(plan) else Held(_names(plan), now_s)
        return Choice(_names(plan), reason, 0.0, self.obstacles, leaving_bytes, now_held)


def _reason(chosen: tuple[Offer, ...], best: tuple[Offer, ...], survey: _Survey) -> Reason:
    if not chosen:
        return Reason.NOT_WORTH
    if survey.tried:
        return Reason.TRIED
    if len(survey.able) == 1:
        return Reason.ONLY
    return Reason.LEAST_COST if chosen == best else Reason.HELD


@dataclass(frozen=True, slots=True)
class WeightedCost:
    """Least weighted cost under the deadline, with hysteresis."""

    settings: TierSettings = field(default_factory=TierSettings)

    def select(self, ask: Ask, offers: Sequence[Offer], held: Held, now_s: float) -> Choice:
        survey = _Survey.of(ask, offers)
        costs = {plan: self._cost(ask, plan) for plan in _plans(ask, survey.able, self.settings)}
        if not survey.able:
            # The plan is kept: what one request could not have is no change of mind.
            return replace(survey.choice((), Reason.NOBODY, ask, held, now_s), held=held)
        best = min(costs, key=costs.__getitem__)
        chosen = best if survey.tried else self._steady(best, costs, held, now_s)
        others = {
            offer.target: NotTaken(
                Why.HELD_BACK if offer in best else Why.DEARER,
                min(costs[plan] for plan in costs if offer in plan),
                costs[chosen],
            )
            for offer in survey.able
            if offer not in chosen
        }
        choice = survey.choice(chosen, _reason(chosen, best, survey), ask, held, now_s)
        return replace(choice, cost=costs[chosen], not_taken=survey.obstacles | others)

    def _cost(self, ask: Ask, plan: Sequence[Offer]) -> float:
        return cost(_expense(ask, plan), ask.deadline_ms, self.settings.allowance, self.settings.weights)

    def _steady(
        self, best: tuple[Offer, ...], costs: Mapping[tuple[Offer, ...], float], held: Held, now_s: float
    ) -> tuple[Offer, ...]:
        """The best plan, or the present one while it can be carried out and is not clearly worse."""
        present = next((plan for plan in costs if _names(plan) == held.plan), None)
        if present is None:
            return best
        clear = costs[best] < self.settings.factor * costs[present]
        return best if clear and now_s - held.since_s >= self.settings.dwell_s else present


@dataclass(frozen=True, slots=True)
class _Greedy:
    """One target, the first by some order, of those that can; the baseline without costs or memory."""

    rank: Callable[[Offer], float]

    def select(self, ask: Ask, offers: Sequence[Offer], held: Held, now_s: float) -> Choice:
        survey = _Survey.of(ask, offers)
        if not survey.able:
            return survey.choice((), Reason.NOBODY, ask, held, now_s)
        first = min(survey.able, key=self.rank)
        others = {o.target: NotTaken(Why.DEARER, self.rank(o), self.rank(first)) for o in survey.able if o is not first}
        reason = Reason.TRIED if survey.tried else Reason.LEAST_COST if others else Reason.ONLY
        return replace(survey.choice((first,), reason, ask, held, now_s), not_taken=survey.obstacles | others)


def _distance(offer: Offer) -> float:
    return float(NEAREST_FIRST.index(offer.tier))


TIER_KINDS: Mapping[str, Callable[[TierSettings], TierSelector]] = {
    "weighted": WeightedCost,
    "fastest": lambda _: _Greedy(_mean_ms),
    "nearest": lambda _: _Greedy(_distance),
}
