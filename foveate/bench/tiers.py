"""Three tiers: what choosing by weighted cost loses against hindsight, and what the death of an edge node costs.

The choices are the product's own, the world is simulated (``tier_world``): a camera that has the small model's answer
for every frame and asks five times a second for a better one. Costs are those that came true, by the weights that
chose. The oracle knows, for every 5 s, which one plan was the cheapest.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean

import numpy as np

from foveate.bench.tier_stand import Request, Stand
from foveate.bench.tier_world import DEADLINE_MS, Scene
from pipeline.network.profiles import PROFILES
from pipeline.policies.tier_cost import PRESETS, Allowance, Tier, Weights, cost
from pipeline.policies.tier_offers import Ask, Latency, Offer
from pipeline.policies.tiers import TIER_KINDS, Choice, Held, Plan, Reason, TierSelector, TierSettings, WeightedCost

SEEDS = (1, 2, 3)
SEGMENT_S = 5.0
PLANS: tuple[Plan, ...] = (
    (), ("device",), ("edge",), ("cloud",), ("device", "edge"), ("device", "cloud"), ("edge", "cloud"),
)  # fmt: skip
KILL_AT_S = 33.0
KILL_PER_S = 12.5


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same plan, whatever is known."""

    plan: Plan

    def select(self, ask: Ask, offers: Sequence[Offer], held: Held, now_s: float) -> Choice:
        del ask, offers, held
        return Choice(self.plan, Reason.ONLY, 0.0, {}, 0.0, Held(self.plan, now_s))


def costs(requests: Sequence[Request], weights: Weights) -> list[float]:
    """What each request cost in the end."""
    return [cost(request.expense, DEADLINE_MS, Allowance(), weights) for request in requests]


def oracle(fixed: Mapping[Plan, Sequence[float]], per_segment: int) -> float:
    """The sum of the costs if every segment had the plan that was its cheapest."""
    length = len(next(iter(fixed.values())))
    starts = range(0, length, per_segment)
    return sum(min(sum(each[start : start + per_segment]) for each in fixed.values()) for start in starts)


@dataclass(slots=True)
class Regrets:
    """Excess over the oracle, as a share of it: by network, those of all presets and seeds."""

    by_network: dict[str, list[float]] = field(default_factory=dict)

    def add(self, network: str, spent: float, least: float) -> None:
        self.by_network.setdefault(network, []).append(spent / least - 1)

    @property
    def worst(self) -> float:
        """That of the network where it is greatest, on the average."""
        return max(fmean(each) for each in self.by_network.values())

    @property
    def worst_of_all(self) -> float:
        """That of the worst preset and seed of all."""
        return max(max(each) for each in self.by_network.values())


def regret(seeds: Sequence[int], duration_s: float, say: Callable[[str], None]) -> dict[str, float]:
    """Regrets over all networks of the protocol and all presets, of ours and of what it is compared with."""
    names = ("ours", "ours_per_request", "one_stage", "fastest", "nearest", "best_fixed")
    found = {name: Regrets() for name in names}
    switches: list[float] = []
    for network in PROFILES:
        say(f"tiers over {network}")
        for scene in (Scene(network, seed, duration_s) for seed in seeds):
            fixed = {plan: Stand(scene, Fixed(plan), moving=False).run().requests for plan in PLANS}
            greedy = {kind: Stand(scene, TIER_KINDS[kind](TierSettings())).run() for kind in ("fastest", "nearest")}
            for weights in PRESETS.values():
                priced = {plan: costs(requests, weights) for plan, requests in fixed.items()}
                least = oracle(priced, round(SEGMENT_S * scene.per_s))
                ours = Stand(scene, WeightedCost(TierSettings(weights))).run()
                single = Stand(scene, WeightedCost(TierSettings(weights, two_stage=False))).run()
                spent = sum(costs(ours.requests, weights))
                found["ours"].add(network, spent, least)
                found["ours_per_request"].add(network, spent, oracle(priced, 1))
                found["one_stage"].add(network, sum(costs(single.requests, weights)), least)
                found["best_fixed"].add(network, min(map(sum, priced.values())), least)
                for kind, stand in greedy.items():
                    found[kind].add(network, sum(costs(stand.requests, weights)), least)
                switches.append(ours.switches * SEGMENT_S / duration_s)
    figures = {f"tier_regret_{name}": regrets.worst for name, regrets in found.items()}
    figures["tier_regret"] = figures.pop("tier_regret_ours")
    figures["tier_regret_worst_of_all"] = found["ours"].worst_of_all
    for network, each in found["ours"].by_network.items():
        figures[f"tier_regret_{network}"] = fmean(each)
    return figures | {"tier_switches_per_5_s": fmean(switches), "tier_switches_per_5_s_most": max(switches)}


def sensitivity(scenes: Sequence[Scene]) -> dict[str, float]:
    """By how much what is spent grows, as a share, where one weight of ``balanced`` is half or one and a half of what
    it should be; the worse of the two, by weight.
    """
    true = PRESETS["balanced"]

    def spent(weights: Weights) -> float:
        stands = (Stand(scene, WeightedCost(TierSettings(weights))).run() for scene in scenes)
        return sum(sum(costs(stand.requests, true)) for stand in stands)

    right = spent(true)
    return {
        f"tier_wrong_weight_of_{name}": max(
            spent(replace(true, **{name: factor * getattr(true, name)})) / right - 1 for factor in (0.5, 1.5)
        )
        for name in ("latency", "bytes", "energy", "shortfall")
    }


def degraded_s(scene: Scene, weights: Weights, *, moving: bool = True) -> float | None:
    """For how long after the edge node's death it was asked in vain, so that the small model's answer had to stand.
    None where nobody was asking it when it died.
    """
    if scene.edge_dies_s is None:
        raise ValueError("nothing dies in this scene")
    requests = Stand(scene, WeightedCost(TierSettings(weights)), moving=moving).run().requests
    asked_s = [(each.asked_s - scene.edge_dies_s, each.fell_back) for each in requests if "edge" in each.asked]
    if not any(-DEADLINE_MS / 1000 < since_s <= 0 for since_s, _ in asked_s):
        return None
    return max((since_s for since_s, fell_back in asked_s if fell_back and since_s > -DEADLINE_MS / 1000), default=0.0)


def deaths(seeds: Sequence[int]) -> dict[str, float]:
    """The longest time of degraded answers after a death, with requests that move and with such that do not."""
    scenes = [Scene(net, seed, KILL_AT_S + 3.0, KILL_PER_S, KILL_AT_S) for net in ("wifi", "lte") for seed in seeds]

    def longest_s(*, moving: bool) -> tuple[float, int]:
        found = [degraded_s(scene, weights, moving=moving) for scene in scenes for weights in PRESETS.values()]
        known_s = [each_s for each_s in found if each_s is not None]
        return max(0.0, *known_s), len(known_s)

    (moved_s, runs), (unmoved_s, _) = longest_s(moving=True), longest_s(moving=False)
    return {
        "tier_stand_degraded_s": moved_s,
        "tier_stand_degraded_unmoved_s": unmoved_s,
        "tier_stand_deaths": float(runs),
    }


@dataclass(frozen=True, slots=True)
class Level:
    """A tier of the example: it takes ``base_ms`` and half a millisecond for each unit of load, and holds ``room``."""

    tier: Tier
    base_ms: float
    room: float
    joules_per_unit: float
    transfer_cost: float

    def offer(self, load: float, demand: float) -> Offer:
        """What it offers for one task at this load."""
        took = self.base_ms + 0.5 * load
        energy_j = demand * self.joules_per_unit
        models, free = frozenset({"any"}), self.room - load
        return Offer(self.tier, self.tier, models, free, Latency(took, took), energy_j, self.transfer_cost)


EXAMPLE = (
    Level(Tier.DEVICE, 10.0, 8.0, 0.10, 0.0),
    Level(Tier.EDGE, 60.0, 20.0, 0.06, 0.2),
    Level(Tier.CLOUD, 200.0, 100.0, 0.03, 1.0),
)
"""Joules per unit of demand and costs of transfer are assumptions: nearer is thirstier, farther is more to carry."""
TASKS, MOST_DEMAND = 20, 15
_BYTES_PER_UNIT = 1000.0
EXAMPLE_SEED = 42


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of the tasks: how many by tier, means over those in time, and what all of them took."""

    by_tier: Mapping[str, int]
    in_time: int
    latency_ms: float
    energy_j: float
    billed_kb: float


def tasks(seed: int) -> list[tuple[int, int]]:
    """Demands in units and deadlines in milliseconds."""
    rng = Random(seed)
    return [(rng.randint(2, MOST_DEMAND), rng.randint(50, 250)) for _ in range(TASKS)]


def most_in_time(seed: int) -> int:
    """How many tasks could be in time if all were known beforehand: by dynamic programming over the three loads."""
    best = np.full([int(each.room) + 1 for each in EXAMPLE], -np.inf)
    best[0, 0, 0] = 0
    for demand, deadline_ms in tasks(seed):
        after = best.copy()
        for axis, each in enumerate(EXAMPLE):
            last = min(int(each.room) - demand, int(2 * (deadline_ms - each.base_ms)))  # the highest load before it
            if last >= 0:
                before = np.moveaxis(best, axis, 0)[: last + 1]
                there = np.moveaxis(after, axis, 0)[demand : demand + last + 1]
                np.maximum(there, before + 1, out=there)
        best = after
    return int(best.max())


def place(selector: TierSelector, seed: int) -> Placed:
    """Place the tasks of the example one after another. None ends while others come: what is full stays full."""
    load, by_tier = Counter[str](), Counter[str]()
    latencies_ms: list[float] = []
    energy_j = billed_kb = 0.0
    for demand, deadline_ms in tasks(seed):
        ask = Ask(frozenset({"any"}), demand * _BYTES_PER_UNIT, deadline_ms, deadline_ms, demand, most_stages=1)
        offers = {each.tier.value: each.offer(load[each.tier.value], demand) for each in EXAMPLE}
        for target in selector.select(ask, list(offers.values()), Held(), 0.0).plan:
            taken = offers[target]
            load[target] += demand
            by_tier[target] += 1
            latencies_ms.append(taken.latency.mean_ms if taken.latency else 0.0)
            energy_j += taken.energy_j
            billed_kb += ask.size_bytes * taken.transfer_cost / 1000
    return Placed(by_tier, len(latencies_ms), fmean(latencies_ms or [0.0]), energy_j, billed_kb)


def selectors() -> dict[str, TierSelector]:
    """Greedy lowest latency and the weighted cost under each preset; a task of the greatest demand costs 1 of each."""
    allowance = Allowance(MOST_DEMAND * _BYTES_PER_UNIT, MOST_DEMAND * EXAMPLE[0].joules_per_unit)
    weighted = {name: WeightedCost(TierSettings(weights, allowance)) for name, weights in PRESETS.items()}
    return {"greedy": TIER_KINDS["fastest"](TierSettings()), **weighted}


def example(draws: int) -> dict[str, float]:
    """The example's one draw of tasks, and the mean over many draws."""
    figures = {
        "tasks_hindsight_in_time": float(most_in_time(EXAMPLE_SEED)),
        "tasks_hindsight_in_time_mean": fmean(most_in_time(seed) for seed in range(draws)),
    }
    for name, selector in selectors().items():
        one, many = place(selector, EXAMPLE_SEED), [place(selector, seed) for seed in range(draws)]
        for tier in Tier:
            figures[f"tasks_{name}_{tier}"] = float(one.by_tier.get(tier, 0))
        figures[f"tasks_{name}_in_time"] = float(one.in_time)
        figures[f"tasks_{name}_latency_ms"] = one.latency_ms
        figures[f"tasks_{name}_energy_j"] = one.energy_j
        figures[f"tasks_{name}_billed_kb"] = one.billed_kb
        figures[f"tasks_{name}_in_time_mean"] = fmean(each.in_time for each in many)
        figures[f"tasks_{name}_latency_ms_mean"] = fmean(each.latency_ms for each in many)
        figures[f"tasks_{name}_energy_j_mean"] = fmean(each.energy_j for each in many)
        figures[f"tasks_{name}_billed_kb_mean"] = fmean(each.billed_kb for each in many)
    return figures


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """All figures; ``short`` takes one seed, shorter runs and fewer draws."""
    seeds, duration_s, draws = (SEEDS[:1], 30.0, 50) if short else (SEEDS, 60.0, 500)
    figures = regret(seeds, duration_s, say)
    say("weights that are wrong")
    figures |= sensitivity([Scene(net, n, duration_s) for net in ("wifi", "lte") for n in seeds])
    say("an edge node that dies")
    figures |= deaths(seeds)
    say("the example of 20 tasks")
    return figures | example(draws)
