"""What the uplink tells of the targets it asks."""

from dataclasses import dataclass

from pipeline.policies.tier_cost import Tier


@dataclass(frozen=True, slots=True)
class TargetFigures:
    """One target: the workers of a tier, or of those of them at one location, that serve one model.

    ``workers`` are online. ``closed`` is why nothing is asked of it now, empty where it is asked. ``round_trip_ms`` is
    what a usual request is expected to take (None: nothing fresh is known). Since the start: requests ``asked`` of it,
    ``answered`` by it in time or late, ``refused``, ``moved`` from it to another target, and ``bytes_up`` to it.
    """

    target: str
    tier: Tier
    location: str
    model: str
    workers: int
    closed: str
    round_trip_ms: float | None
    in_flight: int
    asked: int
    answered: int
    refused: int
    moved: int
    bytes_up: int
