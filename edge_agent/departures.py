"""How many bytes of a camera's pictures have gone where."""

from collections import Counter
from dataclasses import dataclass

from pipeline.policies.tier_cost import Tier

MOST_PLACES = 64
"""Further locations of a tier count as unknown ones: they come from outside."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where pictures go: a tier, and the location of its workers (empty: not told)."""

    tier: Tier
    location: str = ""

    def __str__(self) -> str:
        return f"tier {self.tier.value}" + (f", location {self.location}" if self.location else "")


class Departures:
    """What one camera has sent, in bytes of whole requests, by place."""

    def __init__(self) -> None:
        self._bytes: Counter[Place] = Counter()

    def add(self, place: Place, size_bytes: int) -> None:
        known = place in self._bytes or len(self._bytes) < MOST_PLACES
        self._bytes[place if known else Place(place.tier)] += size_bytes

    @property
    def by_place(self) -> dict[Place, int]:
        return dict(self._bytes)

    @property
    def by_tier(self) -> dict[str, int]:
        """For each tier that may be sent to."""
        return {t.value: sum(n for p, n in self._bytes.items() if p.tier is t) for t in (Tier.EDGE, Tier.CLOUD)}

    @property
    def leaving_site_bytes(self) -> int:
        return self.by_tier[Tier.CLOUD.value]
