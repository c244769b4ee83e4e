"""The measurement of tiers counts every request once, and its oracle, deaths and example mean what they say."""

from dataclasses import replace

import pytest

from foveate.bench.tier_stand import Stand
from foveate.bench.tier_world import DEADLINE_MS, REMAINING_MS, SMALL_SHORTFALL, Scene
from foveate.bench.tiers import (
    EXAMPLE,
    PLANS,
    TASKS,
    Fixed,
    Regrets,
    costs,
    degraded_s,
    most_in_time,
    oracle,
    place,
    selectors,
    sensitivity,
    tasks,
)
from pipeline.policies.tier_cost import PRESETS, Weights
from pipeline.policies.tiers import Plan, TierSettings, WeightedCost

SCENE = Scene("lte", 1, 20.0)


def ours(scene: Scene, preset: str = "balanced") -> Stand:
    return Stand(scene, WeightedCost(TierSettings(PRESETS[preset]))).run()


@pytest.mark.parametrize("network", ["wifi", "outage"])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_request_ends_by_its_time_whatever_becomes_of_its_target(network: str, preset: str) -> None:
    stand = ours(Scene(network, 1, 35.0, edge_dies_s=20.0), preset)
    assert len(stand.requests) == 175
    for request in stand.requests:
        assert 1 <= len(request.arrivals) <= 2
        assert all(0 <= arrival.at_ms <= REMAINING_MS + 1e-6 for arrival in request.arrivals)
        assert request.fell_back == (request.arrivals[-1].shortfall == SMALL_SHORTFALL)
        assert len(request.asked) == len(set(request.asked))


def test_a_run_is_the_same_again() -> None:
    first, again = (ours(SCENE).requests for _ in range(2))
    assert [request.expense for request in first] == [request.expense for request in again]


def test_a_fixed_plan_is_kept_and_nobody_else_is_asked() -> None:
    for plan in PLANS:
        requests = Stand(SCENE, Fixed(plan), moving=False).run().requests
        assert all(request.plan == tuple(request.asked) == plan for request in requests)
        assert all(request.fell_back for request in requests) == (plan == ())


def test_the_oracle_takes_the_cheapest_plan_of_each_segment() -> None:
    fixed: dict[Plan, list[float]] = {("edge",): [1.0, 1.0, 9.0, 9.0], ("cloud",): [5.0, 5.0, 2.0, 1.0]}
    assert oracle(fixed, 2) == 5.0
    assert oracle(fixed, 4) == 13.0
    assert oracle(fixed, 1) == 5.0


def test_the_regret_is_that_of_the_worst_network() -> None:
    regrets = Regrets()
    for network, spent in (("wifi", 11.0), ("wifi", 13.0), ("lte", 10.0)):
        regrets.add(network, spent, 10.0)
    assert regrets.worst == pytest.approx(0.2)
    assert regrets.worst_of_all == pytest.approx(0.3)


@pytest.mark.parametrize("preset", ["bandwidth", "balanced"])
def test_choosing_by_weighted_cost_comes_closer_to_hindsight_than_the_best_fixed_plan(preset: str) -> None:
    scene, weights = Scene("step", 2, 40.0), PRESETS[preset]
    fixed = {plan: costs(Stand(scene, Fixed(plan), moving=False).run().requests, weights) for plan in PLANS}
    least, spent = oracle(fixed, 25), sum(costs(ours(scene, preset).requests, weights))
    assert spent <= 1.1 * least
    assert spent < min(map(sum, fixed.values()))


def test_a_wrong_weight_of_latency_or_energy_matters_little_and_all_are_told() -> None:
    figures = sensitivity([Scene("wifi", 1, 20.0)])
    assert {name.removeprefix("tier_wrong_weight_of_") for name in figures} == {
        "latency",
        "bytes",
        "energy",
        "shortfall",
    }
    assert max(figures["tier_wrong_weight_of_latency"], figures["tier_wrong_weight_of_energy"]) < 0.15


@pytest.mark.parametrize("seed", [1, 3])
def test_an_edge_node_that_dies_costs_at_most_one_deadline_of_degraded_answers(seed: int) -> None:
    scene, weights = Scene("wifi", seed, 36.0, 12.5, 33.0), PRESETS["energy"]
    moved_s, unmoved_s = (degraded_s(scene, weights, moving=moving) for moving in (True, False))
    assert moved_s is not None
    assert unmoved_s is not None
    assert moved_s <= DEADLINE_MS / 1000 < unmoved_s


def test_a_death_costs_nothing_that_nobody_asked() -> None:
    scene = Scene("wifi", 1, 36.0, 12.5, 33.0)
    assert degraded_s(scene, Weights(0.0, 0.0, 1.0, 0.0)) is None  # where only joules count, what stands is enough
    with pytest.raises(ValueError, match="nothing dies"):
        degraded_s(replace(scene, edge_dies_s=None), PRESETS["energy"])


def test_the_examples_tasks_are_placed_within_capacity_and_deadline() -> None:
    for selector in selectors().values():
        for seed in range(20):
            placed = place(selector, seed)
            assert placed.in_time == sum(placed.by_tier.values()) <= most_in_time(seed) <= TASKS
            assert placed.latency_ms <= 250


def test_patient_tasks_make_room_for_hasty_ones_where_energy_has_a_price() -> None:
    kinds = selectors()
    greedy, energy = (sum(place(kinds[name], seed).in_time for seed in range(100)) for name in ("greedy", "energy"))
    assert energy > 1.05 * greedy


def test_hindsight_finds_what_can_be_found_by_hand() -> None:
    smallest = sorted(demand for demand, _ in tasks(42))
    near = sum(each.room for each in EXAMPLE[:2])
    assert most_in_time(42) <= sum(deadline_ms >= 200 or demand <= near for demand, deadline_ms in tasks(42))
    assert most_in_time(42) >= sum(sum(smallest[:count]) <= 8 for count in range(1, TASKS))
