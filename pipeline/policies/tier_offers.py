"""What a request asks for, what each tier offers for it, and what keeps a target from answering it."""

import math
from dataclasses import dataclass
from enum import StrEnum

from pipeline.policies.path import PathEstimate
from pipeline.policies.tier_cost import Tier


class Why(StrEnum):
    """Why a target was not taken."""

    FORBIDDEN = "forbidden"  # the camera keeps its pictures from this tier
    NOT_MASKED = "not_masked"  # the camera gives this tier masked crops alone
    NO_MODEL = "no_model"  # it has none of the models that would do
    CLOSED = "closed"  # it is gone or overloaded
    NO_ROOM = "no_room"  # its queue does not admit so much
    NO_TOKENS = "no_tokens"  # the uplink budget does not allow so many bytes
    NO_BETTER = "no_better"  # its answer would be no better than the one that stands
    UNKNOWN = "unknown"  # nothing fresh is known of it, and something known is in time
    LATE = "late"  # its answer would come too late
    DEARER = "dearer"
    HELD_BACK = "held_back"  # cheaper, but not by enough, or the last change is too recent
    NEIGHBOUR = "neighbour"  # another target of the tier that the request comes from can answer it


@dataclass(frozen=True, slots=True)
class NotTaken:
    """Why a target was not taken: where it is a matter of figures, its own and the one that it had to meet."""

    why: Why
    figure: float | None = None
    limit: float | None = None

    def __str__(self) -> str:
        known = self.figure is not None and self.limit is not None
        return f"{self.why} ({self.figure:.3g} against {self.limit:.3g})" if known else str(self.why)


@dataclass(frozen=True, slots=True)
class Privacy:
    """To which tiers a camera's pictures may go, and to which of them only as masked crops."""

    tiers: frozenset[Tier] = frozenset(Tier)
    masked_only: frozenset[Tier] = frozenset()

    def hindrance(self, tier: Tier, *, masked: bool) -> Why | None:
        """What keeps a picture from a tier; ``masked`` as of ``Ask``. The device has it anyway."""
        if tier is not Tier.DEVICE and tier not in self.tiers:
            return Why.FORBIDDEN
        return Why.NOT_MASKED if tier in self.masked_only and not masked else None

    @property
    def beyond_device(self) -> frozenset[Tier]:
        """The tiers that may be asked, other than the agent itself."""
        return self.tiers - {Tier.DEVICE}

    @property
    def masks(self) -> bool:
        """Whether pictures must be masked for one of the tiers that may be asked."""
        return bool(self.beyond_device & self.masked_only)

    @property
    def whole_frames(self) -> bool:
        """Whether there is a tier to which whole frames may go."""
        return bool(self.beyond_device - self.masked_only)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that somebody is to answer, by any of ``models``. ``demand`` is in the targets' units of room.

    It has ``deadline_ms`` in all, of which ``remaining_ms`` are left. ``masked``: it shows nothing that a mask hides,
    and nothing but crops. ``tokens_bytes`` is what the uplink budget allows now (None: no limit). ``stands`` is the
    shortfall of the answer that there is already, as a rule the small model's (None: there is none, so that whoever can
    is asked at any cost). ``most_stages`` is 1 or 2.
    """

    models: frozenset[str]
    size_bytes: float
    deadline_ms: float
    remaining_ms: float
    demand: float = 1.0
    privacy: Privacy = Privacy()
    masked: bool = False
    tokens_bytes: float | None = None
    stands: float | None = None
    most_stages: int = 2


@dataclass(frozen=True, slots=True)
class Latency:
    """What a round trip to a target and back is expected to take, and what in a bad case."""

    mean_ms: float
    tail_ms: float


@dataclass(frozen=True, slots=True)
class Offer:
    """What a target would take to answer one request now. A target is where a request can be sent: the workers of one
    tier and location, which share its requests, or the device itself.

    ``room`` is how much more it admits; ``latency`` is predicted until its answer is there (None: unknown);
    ``transfer_cost`` what a byte to it counts, 1 on the uplink that is budgeted and 0 on the device; ``shortfall`` the
    part of the best possible F1 that its answers lack. ``closed`` is why it takes no requests, empty where it does.
    """

    target: str
    tier: Tier
    models: frozenset[str]
    room: float
    latency: Latency | None
    energy_j: float = 0.0
    transfer_cost: float = 1.0
    shortfall: float = 0.0
    closed: str = ""


def obstacle(ask: Ask, offer: Offer) -> NotTaken | None:
    """What keeps a target from answering a request, the deadline included; None where nothing does."""
    if (private := ask.privacy.hindrance(offer.tier, masked=ask.masked)) is not None:
        return NotTaken(private)
    if not ask.models & offer.models:
        return NotTaken(Why.NO_MODEL)
    if offer.closed:
        return NotTaken(Why.CLOSED)
    if ask.demand > offer.room:
        return NotTaken(Why.NO_ROOM, ask.demand, offer.room)
    if ask.tokens_bytes is not None and billed_bytes(ask, offer) > ask.tokens_bytes:
        return NotTaken(Why.NO_TOKENS, billed_bytes(ask, offer), ask.tokens_bytes)
    if ask.stands is not None and offer.shortfall >= ask.stands:
        return NotTaken(Why.NO_BETTER, offer.shortfall, ask.stands)
    if offer.latency is not None and offer.latency.tail_ms > ask.remaining_ms:
        return NotTaken(Why.LATE, offer.latency.tail_ms, ask.remaining_ms)
    return None


def billed_bytes(ask: Ask, offer: Offer) -> float:
    """What sending the request to a target costs of the uplink budget."""
    return ask.size_bytes * offer.transfer_cost


@dataclass(frozen=True, slots=True)
class Announced:
    """What the workers of a target say of themselves: the 95th percentile of a run, and how long a newcomer waits."""

    run_ms: float | None = None
    wait_ms: float | None = None


def wait_changed(told_ms: float | None, now_ms: float | None) -> bool:
    """Whether a worker's wait differs so much from the announced one that it is worth telling: by two of the steps at
    10, 30, 70, 150 ms and so on. Whoever has turned away from it would else not hear before its next heartbeat that it
    is free again.
    """
    return abs(_step(told_ms) - _step(now_ms)) >= 2


def _step(wait_ms: float | None) -> int:
    return int(math.log2(1 + max(0.0, wait_ms or 0.0) / 10))


def latency(
    path: PathEstimate,
    announced: Announced,
    size_bytes: float,
    now_s: float,
    deviations: float = 1.0,
    kind: str = "mosaic",
) -> Latency | None:
    """The round trip of a request to a target: what its path knows and, where that knows nothing fresh of the worker,
    what the worker says of itself. So a target that nobody has asked for a while can still be judged, from echoes.
    None where nothing fresh is known of the network. The tail is the mean plus ``deviations`` deviations.
    """
    forecast = path.forecast(size_bytes, now_s, kind, deviations)
    if forecast is None:
        return None
    known = path.knows_worker(kind, now_s)
    worker_ms = 0.0 if known else (announced.run_ms or 0.0) + (announced.wait_ms or 0.0)
    return Latency(forecast.mean_ms + worker_ms, forecast.tail_ms + worker_ms)
