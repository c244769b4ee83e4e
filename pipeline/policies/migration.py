"""When requests leave a target, where those under way go, and when they come back.

A target is left when it is gone (its will, missed heartbeats), when it owes an answer that is overdue, when it refuses
again and again, or when more is under way to it than Little's law gives for the answers it is expected to give. What it
owes is asked elsewhere while that can still be in time: the hedge of a request that is past the 95th percentile (Dean
and Barroso, "The Tail at Scale", CACM 2013), sent to a neighbour first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipeline.policies.tier_cost import Tier
from pipeline.policies.tier_offers import Ask, NotTaken, Offer, Why
from pipeline.policies.tiers import Choice, Held, TierSelector


class Standing(StrEnum):
    """How a target stands."""

    TAKING = "taking"
    SILENT = "silent"  # an answer of it is overdue, and none has come since
    OVERLOADED = "overloaded"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class MigrationSettings:
    """A target is left after ``refusals_to_leave`` refusals in a row, or with ``least_in_flight`` or more under way
    and ``deviations`` standard deviations more than expected.

    Requests come back after ``dwell_s``. For ``calm_s`` from then on they are on trial: one refusal is enough, and the
    next dwell is twice as long, up to ``dwell_most_s``.
    """

    refusals_to_leave: int = 3
    least_in_flight: int = 4
    deviations: float = 3.0
    dwell_s: float = 2.0
    dwell_most_s: float = 30.0
    calm_s: float = 10.0


@dataclass(frozen=True, slots=True)
class InFlight:
    """What is under way to a target: how many requests, how many are sent per second, and what each is expected to
    take (None: unknown). ``young`` of them were sent within that time.
    """

    length: int
    sent_per_s: float
    expected_ms: float | None
    young: int = 0


def piles_up(load: InFlight, settings: MigrationSettings) -> bool:
    """Whether more is under way than a target has that answers as expected.

    By Little's law its mean is rate times time (Little, Operations Research 1961). With arrivals at random it varies
    like a Poisson number, whatever the distribution of the times (M/G/infinity), so by the root of its mean. Where
    requests have just come here the rate says nothing of them: then no fewer are expected than are young.
    """
    if load.expected_ms is None or load.length < settings.least_in_flight:
        return False
    mean = max(load.sent_per_s * load.expected_ms / 1000, load.young)
    return load.length > mean + settings.deviations * math.sqrt(mean)


@dataclass(frozen=True, slots=True)
class TargetHealth:
    """Whether a target takes requests. It is told what happens there, and asked with ``closed``."""

    settings: MigrationSettings = field(default_factory=MigrationSettings)
    standing: Standing = Standing.TAKING
    reason: str = ""
    until_s: float = -math.inf
    """When requests come back, or last came back."""
    dwell_s: float = 0.0
    refusals: int = 0

    def closed(self, now_s: float) -> str:
        """Why no requests are sent there; empty where they are."""
        return self.reason if self.standing is not Standing.TAKING and now_s < self.until_s else ""

    def at(self, now_s: float) -> Standing:
        """How it stands at a moment: after its dwell it is taking again."""
        return self.standing if self.closed(now_s) else Standing.TAKING

    def present(self, fault: str, now_s: float) -> "TargetHealth":
        """What its workers' announcements say: why none is there (``offline``, ``no heartbeat``), or nothing."""
        away = self.standing is Standing.GONE and self.until_s == math.inf
        if fault:
            return replace(self._left(Standing.GONE, fault, now_s), until_s=math.inf)
        return replace(self, reason="back", until_s=now_s + self.dwell_s) if away else self

    def answered(self) -> "TargetHealth":
        """An answer came, in time or late. One that was only silent is forgiven at once."""
        if self.standing is not Standing.SILENT:
            return replace(self, refusals=0)
        return replace(self, standing=Standing.TAKING, reason="", until_s=-math.inf, refusals=0)

    def overdue(self, now_s: float) -> "TargetHealth":
        """No answer came within the time in which nearly all come."""
        return self._left(Standing.SILENT, "overdue", now_s)

    def refused(self, now_s: float, *, for_good: bool = False) -> "TargetHealth":
        """It refused for want of time or room, or ``for_good``: it is stopping, or cannot do what is asked."""
        if for_good:
            return self._left(Standing.GONE, "refuses", now_s)
        if self._on_trial(now_s) or self.refusals + 1 >= self.settings.refusals_to_leave:
            return self._left(Standing.OVERLOADED, "busy", now_s)
        return replace(self, refusals=self.refusals + 1)

    def measured(self, load: InFlight, now_s: float) -> "TargetHealth":
        """So much is under way to it."""
        return self._left(Standing.OVERLOADED, "queue", now_s) if piles_up(load, self.settings) else self

    def _on_trial(self, now_s: float) -> bool:
        """Whether it has been left and not been calm since."""
        return self.dwell_s > 0 and now_s - self.until_s < self.settings.calm_s

    def _left(self, standing: Standing, reason: str, now_s: float) -> "TargetHealth":
        """The health of a target that is left now; what was left already tells nothing new, unless it is gone."""
        closed = bool(self.closed(now_s))
        if closed and (standing is not Standing.GONE or self.standing is Standing.GONE):
            return self
        again = self._on_trial(now_s)
        longer_s = self.dwell_s if closed else 2 * self.dwell_s
        dwell_s = min(self.settings.dwell_most_s, longer_s) if again else self.settings.dwell_s
        return replace(self, standing=standing, reason=reason, until_s=now_s + dwell_s, dwell_s=dwell_s, refusals=0)


def moves(standing: Standing, *, overdue: bool) -> bool:
    """Whether a request under way to a target is to be asked elsewhere: all of one that is gone, else what is overdue.

    A refused one is moved in any case: nobody else will answer it.
    """
    return overdue or standing is Standing.GONE


def move(ask: Ask, tier: Tier, offers: Sequence[Offer], selector: TierSelector, now_s: float) -> Choice:
    """Who answers instead a request that a target of ``tier`` owes: a neighbour of that tier, else any other tier.

    ``ask`` has what remains of its time, ``offers`` are those of targets that have not been asked. Nobody, where none
    can be in time: what the device has found stands.
    """
    once = replace(ask, most_stages=1)
    neighbours = [offer for offer in offers if offer.tier is tier]
    others = [offer for offer in offers if offer.tier is not tier]
    near = selector.select(once, neighbours, Held(), now_s)
    if near.plan:
        return replace(near, not_taken={o.target: NotTaken(Why.NEIGHBOUR) for o in others} | dict(near.not_taken))
    far = selector.select(once, others, Held(), now_s)
    return replace(far, not_taken={**near.not_taken, **far.not_taken})
