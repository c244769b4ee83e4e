"""Three tiers as simulated: a device, an edge node on site that others use too, and a cloud behind a modelled network.

What a target does is a queue and a run; which network lies before it is one of the profiles of the protocol. All draws
go by names, so that runs which choose differently meet the same world.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from foveate.simulation.roads import Hop
from pipeline.network.link import Link, LinkSettings
from pipeline.network.profiles import profile
from pipeline.network.rate import constant
from pipeline.policies.tier_cost import Tier

WARM_UP_S = 2.0
"""For echoes and announcements alone."""
DEADLINE_MS = 200.0
REMAINING_MS = 170.0
"""What is left of it when the small model has looked and the crops are packed."""
_MEDIAN_BYTES, _SIZE_SPREAD = 8_500.0, 0.4
"""Of a mosaic, about as measured on the busy clip."""
REPLY_BYTES = 600
_RUN_SPREAD = 0.1
_OTHERS_BUDGET_S = 0.2
_LAN = LinkSettings(constant(12.5e6), 0.001, 0.0003)


@dataclass(frozen=True, slots=True)
class Character:
    """What a target is like. Of its time others use the share ``load``, and ``burst_load`` for ``burst_s`` of every
    ``period_s``. Joules are per run and are estimates: a board of 10 W, a box of 30 W, a share of a server.
    """

    target: str
    tier: Tier
    run_ms: float
    shortfall: float
    energy_j: float
    transfer_cost: float
    load: float = 0.0
    burst_load: float = 0.0
    burst_s: float = 0.0
    period_s: float = math.inf


DEVICE = Character("device", Tier.DEVICE, 60.0, 0.02, 0.6, 0.0)
EDGE = Character("edge", Tier.EDGE, 20.0, 0.01, 0.6, 0.0, 0.4, 2.0, 8.0, 20.0)
CLOUD = Character("cloud", Tier.CLOUD, 12.0, 0.0, 1.0, 1.0, 0.3)
CHARACTERS = (DEVICE, EDGE, CLOUD)
SMALL_SHORTFALL = 0.08
"""What the small model's answer lacks, which stands for every request: about as on the busy clip."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One camera's requests, ``per_s`` for ``duration_s`` from ``WARM_UP_S`` on, and the world that they meet.
    ``edge_dies_s``: the edge node loses its power then (None: never), and says nothing.
    """

    network: str
    seed: int
    duration_s: float = 60.0
    per_s: float = 5.0
    edge_dies_s: float | None = None

    def times_s(self) -> Iterator[float]:
        """When requests are asked."""
        return (WARM_UP_S + number / self.per_s for number in range(int(self.duration_s * self.per_s)))

    def size_bytes(self, number: int) -> float:
        """What a request holds; no more than three times the median."""
        drawn = Random(f"{self.seed}/size/{number}").lognormvariate(0.0, _SIZE_SPREAD)
        return _MEDIAN_BYTES * min(3.0, drawn)


@dataclass(frozen=True, slots=True)
class Served:
    """What a target says to a request, ``at_s`` on its side."""

    at_s: float
    queue_ms: float
    run_ms: float
    refused: bool = False


class Server:
    """A target's model: one run after the other, in the order of arrival, for us and for others; what cannot be in time
    is refused at once, as a worker does.
    """

    def __init__(self, character: Character, scene: Scene) -> None:
        self._character, self._seed = character, scene.seed
        self._dies_s = math.inf
        if character is EDGE and scene.edge_dies_s is not None:
            self._dies_s = scene.edge_dies_s
        self._others = deque(self._other_arrivals(WARM_UP_S + scene.duration_s))
        self._free_s = 0.0

    def alive(self, now_s: float) -> bool:
        """Whether it still has power."""
        return now_s < self._dies_s

    def wait_ms(self, now_s: float) -> float:
        """How long a newcomer would wait."""
        self._serve_others(now_s)
        return max(0.0, self._free_s - now_s) * 1000

    def offer(self, number: int, budget_s: float, now_s: float) -> Served | None:
        """A request arrives that must be answered within its budget; None where no reply will come."""
        queue_ms = self.wait_ms(now_s)
        spread = Random(f"{self._seed}/{self._character.target}/{number}").lognormvariate(0.0, _RUN_SPREAD)
        run_ms = self._character.run_ms * spread
        if (queue_ms + run_ms) / 1000 > budget_s:
            return Served(now_s, 0.0, 0.0, refused=True) if self.alive(now_s) else None
        self._free_s = now_s + (queue_ms + run_ms) / 1000
        return Served(self._free_s, queue_ms, run_ms) if self.alive(self._free_s) else None

    def _serve_others(self, now_s: float) -> None:
        run_s = self._character.run_ms / 1000
        while self._others and self._others[0] <= now_s:
            begins_s = max(self._free_s, arrived_s := self._others.popleft())
            if begins_s + run_s - arrived_s <= _OTHERS_BUDGET_S:
                self._free_s = begins_s + run_s

    def _other_arrivals(self, until_s: float) -> Iterator[float]:
        """Arrivals at random, thinned from the highest rate (Lewis and Shedler, 1979)."""
        it, rng = self._character, Random(f"{self._seed}/{self._character.target}/others")
        most = max(it.load, it.burst_load) * 1000 / it.run_ms
        phase_s = rng.random() * it.period_s if math.isfinite(it.period_s) else 0.0
        at_s = rng.expovariate(most) if most else math.inf
        while at_s < until_s:
            bursting = math.isfinite(it.period_s) and (at_s + phase_s) % it.period_s < it.burst_s
            if rng.random() * max(it.load, it.burst_load) < (it.burst_load if bursting else it.load):
                yield at_s
            at_s += rng.expovariate(most)


def hops(character: Character, scene: Scene) -> tuple[Hop, Hop]:
    """The ways to a target and back."""
    if character.tier is Tier.DEVICE:
        return Hop(0.0), Hop(0.0)
    if character.tier is Tier.EDGE:
        return Hop(0.0, Link(_LAN, f"{scene.seed}/lan/up")), Hop(0.0, Link(_LAN, f"{scene.seed}/lan/down"))
    up, down = profile(scene.network, scene.seed).links(0.0)
    return Hop(0.0, up), Hop(0.0, down)
