"""Whom a question is asked of. Where only one target may be there is no choice: its camera has judged it already."""

import logging
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from edge_agent.lanes import AskerSettings
from edge_agent.questions import NO_WAY, Question
from edge_agent.settings import UplinkSettings
from edge_agent.target_watch import TargetWatch
from edge_agent.targets import Targets
from pipeline.policies.migration import move
from pipeline.policies.tier_cost import Tier
from pipeline.policies.tier_offers import Ask, Offer, Why
from pipeline.policies.tiers import TIER_KINDS, Choice, Held, Plan, Reason, TierSettings

_log = logging.getLogger(__name__)

_SHORT = {Why.LATE: "infeasible", Why.NO_TOKENS: "budget"}
"""What keeps a target from being asked that might be asked for less, in the words of the offload decision."""
NOBODYS_FAULT = NO_WAY | {"not_worth", "forbidden", "not_masked"}
"""Reasons for which nobody is asked that are no want of time, bytes or room."""
_WORDS = _SHORT | {
    Why.NO_ROOM: "busy",
    Why.NOT_MASKED: Why.NOT_MASKED.value,
    Why.FORBIDDEN: Why.FORBIDDEN.value,
    Why.NO_BETTER: Reason.NOT_WORTH.value,
}


@dataclass(frozen=True, slots=True)
class Wish:
    """A question that may be asked: ``remaining_ms`` of its time are left, and the budget allows ``tokens_bytes``."""

    camera: str
    kind: str
    size_bytes: float
    remaining_ms: float
    tokens_bytes: float | None
    stands: float | None = None
    masked: bool = True
    trial: bool = False

    @classmethod
    def of(cls, question: Question, tokens_bytes: float | None, now_s: float) -> "Wish":
        """A question whose turn has come."""
        return cls(
            camera=question.key.camera,
            kind=question.kind,
            size_bytes=len(question.jpeg),
            remaining_ms=(question.settle_at_s - now_s) * 1000,
            tokens_bytes=tokens_bytes,
            stands=question.stands,
            masked=question.masked,
            trial=question.trial,
        )


@dataclass(frozen=True, slots=True)
class Likely:
    """Who would be asked, or why nobody can be, and why crops are not worth it; the reasons are empty without one."""

    watch: TargetWatch
    reason: str = ""
    mosaic_hindrance: str = ""


class TierChoice:
    """The tier selection as configured, with the plan that each camera holds to for each kind of questions."""

    def __init__(self, settings: UplinkSettings, targets: Targets) -> None:
        chosen = TierSettings(weights=settings.weights, two_stage=settings.two_stage)
        self._selector = TIER_KINDS[settings.choice](chosen)
        self._settings, self._targets = settings, targets
        self._held: dict[tuple[str, str], Held] = {}

    def held(self, camera: str, kind: str) -> Plan:
        """The plan that a camera holds to; empty where it has none."""
        return self._held.get((camera, kind), Held()).plan

    def likely(self, wish: Wish, asker: AskerSettings, now_s: float) -> Likely:
        """Who would be asked now; whoever was asked last where nobody is."""
        main, allowed = self._targets.main, self._allowed(wish, asker)
        if len(allowed) < 2:
            only = allowed[0] if allowed else main
            return Likely(only, self._targets.hindrance(only, now_s) or ("" if allowed else self._private(wish, asker)))
        held = self._held.get((wish.camera, wish.kind), Held())
        ask = self._ask(replace(wish, stands=None), asker)
        choice, offers = self._selected(wish, ask, held, now_s)
        if choice.plan:
            worth = self._selector.select(replace(ask, stands=wish.stands), offers, held, now_s)
            hindered = "" if worth.plan else hindrance(worth, offers)
            return Likely(self._targets[choice.plan[0]], mosaic_hindrance=hindered)
        # One that could be asked for less is looked at by the decision what to ask for.
        short = [offer for offer in offers if (no := choice.not_taken.get(offer.target)) and no.why in _SHORT]
        if not short:
            return Likely(main, hindrance(choice, offers))
        nearest = min(short, key=lambda offer: offer.latency.tail_ms if offer.latency else float("inf"))
        return Likely(self._targets[nearest.target])

    def plan(self, wish: Wish, asker: AskerSettings, now_s: float) -> tuple[Plan, str]:
        """Whom to ask, or nobody and why. A change of plan is logged with its reason."""
        allowed = self._allowed(wish, asker)
        if len(allowed) < 2:
            return tuple(watch.link.target.name for watch in allowed), "" if allowed else self._private(wish, asker)
        # What is on trial may go elsewhere, and is no change of the camera's mind.
        flow = wish.camera, f"{wish.kind} on trial" if wish.trial else wish.kind
        before = self._held.get(flow, Held())
        choice, offers = self._selected(wish, self._ask(wish, asker), before, now_s)
        self._held[flow] = choice.held
        if choice.held.plan != before.plan:
            _tell(flow, before.plan, choice)
        return choice.plan, "" if choice.plan else hindrance(choice, offers)

    def _selected(self, wish: Wish, ask: Ask, held: Held, now_s: float) -> tuple[Choice, list[Offer]]:
        """What is chosen, and of which offers: where nobody can be asked, also of those that have failed lately."""
        request = wish.kind, wish.size_bytes
        offers = self._targets.offers(wish.camera, request, now_s)
        choice = self._selector.select(ask, offers, held, now_s)
        if choice.reason is Reason.NOBODY:
            offers = self._targets.offers(wish.camera, request, now_s, in_need=True)
            choice = self._selector.select(ask, offers, held, now_s)
        return choice, offers

    def elsewhere(self, wish: Wish, asker: AskerSettings, tier: Tier, tried: Set[str], now_s: float) -> Plan:
        """Who answers instead what a target of a tier owes, of those that were not ``tried``; nobody where none can be
        in time.
        """
        if not self._targets.several:
            return ()
        offers = self._targets.offers(wish.camera, (wish.kind, wish.size_bytes), now_s, tried)
        return move(self._ask(wish, asker), tier, offers, self._selector, now_s).plan

    def _allowed(self, wish: Wish, asker: AskerSettings) -> list[TargetWatch]:
        """The targets that the camera lets have it. What is there to be learned from is asked of the larger model."""
        return [
            watch
            for watch in self._targets.all()
            if asker.privacy.hindrance(watch.link.target.tier, masked=wish.masked) is None
            and (not wish.trial or watch.link.target.model == self._settings.model)
        ]

    def _private(self, wish: Wish, asker: AskerSettings) -> str:
        """Why no target may have it."""
        tiers = (watch.link.target.tier for watch in self._targets.all())
        whys = [asker.privacy.hindrance(tier, masked=wish.masked) for tier in tiers]
        return next((why.value for why in whys if why is not None), "no_worker")

    def _ask(self, wish: Wish, asker: AskerSettings) -> Ask:
        models = {self._settings.model} if wish.trial else {self._settings.model_of(t) for t in self._settings.tiers}
        return Ask(
            models=frozenset(models),
            size_bytes=wish.size_bytes,
            deadline_ms=max(asker.deadline_ms, wish.remaining_ms),
            remaining_ms=wish.remaining_ms,
            privacy=asker.privacy,
            masked=wish.masked,
            tokens_bytes=wish.tokens_bytes,
            stands=wish.stands,
            most_stages=1 if wish.trial or asker.patient else 2,
        )


def _tell(flow: tuple[str, str], before: Plan, choice: Choice) -> None:
    left = [f"{name}: {why}" for name, why in choice.not_taken.items() if name in before]
    why = "; ".join([choice.reason.value, *left])
    words = in_words(choice.held.plan), in_words(before)
    _log.info("camera %s: questions about a %s go to %s instead of %s (%s)", *flow, *words, why)


def in_words(plan: Plan) -> str:
    """A plan for people."""
    return ", then ".join(plan) if plan else "nobody"


def hindrance(choice: Choice, offers: Sequence[Offer]) -> str:
    """Why nobody is asked: what is nearest to asking somebody, as the reason of a result."""
    if choice.reason is Reason.NOT_WORTH:
        return choice.reason.value
    whys = [not_taken.why for not_taken in choice.not_taken.values()]
    for why in (Why.LATE, Why.NO_TOKENS, Why.NO_ROOM, Why.NO_BETTER):
        if why in whys:
            return _WORDS[why]
    if Why.CLOSED in whys:
        closed = [offer.closed for offer in offers if choice.not_taken[offer.target].why is Why.CLOSED]
        return closed[0] if NO_WAY.issuperset(closed) else "busy"
    return next((_WORDS[why] for why in whys if why in _WORDS), "no_worker")
