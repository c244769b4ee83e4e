"""Targets are left when they are gone, silent or overloaded; what they owe moves to a neighbour; and it comes back."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.migration import (
    InFlight,
    MigrationSettings,
    Standing,
    TargetHealth,
    move,
    moves,
    piles_up,
)
from pipeline.policies.tier_cost import PRESETS, Tier
from pipeline.policies.tier_offers import Ask, Latency, Offer, Privacy, Why
from pipeline.policies.tiers import Held, TierSettings, WeightedCost

SETTINGS = MigrationSettings()
MODEL = frozenset({"large"})
ASK = Ask(MODEL, 10_000.0, 200.0, 120.0)
NEIGHBOUR = Offer("edge-2", Tier.EDGE, MODEL, 8.0, Latency(60.0, 60.0), energy_j=2.0, transfer_cost=0.2)
CLOUD = Offer("cloud", Tier.CLOUD, MODEL, 64.0, Latency(40.0, 40.0), transfer_cost=0.0)


def test_a_target_takes_requests_until_something_is_wrong() -> None:
    health = TargetHealth().present("", 0.0).answered().measured(InFlight(2, 5.0, 60.0), 0.0)
    assert health.closed(0.0) == ""
    assert health.at(0.0) is Standing.TAKING


@pytest.mark.parametrize("fault", ["offline", "no heartbeat"])
def test_a_target_that_says_goodbye_or_nothing_is_left_until_it_announces_itself_and_the_dwell_is_over(
    fault: str,
) -> None:
    gone = TargetHealth().present(fault, 1.0)
    assert (gone.closed(1.0), gone.closed(1e6), gone.at(1e6)) == (fault, fault, Standing.GONE)
    assert gone.present(fault, 2.0) == gone
    back = gone.present("", 10.0)
    assert (back.closed(11.9), back.closed(12.0)) == ("back", "")
    assert back.present("", 11.0) == back  # announcements that follow put off nothing


def test_a_target_that_owes_an_answer_gets_nothing_more_until_one_comes() -> None:
    silent = TargetHealth().overdue(1.0)
    assert (silent.closed(1.0), silent.at(1.0)) == ("overdue", Standing.SILENT)
    assert silent.answered().closed(1.1) == ""
    assert silent.closed(3.0) == ""  # or until it may be tried again
    assert silent.answered().overdue(1.2).dwell_s == SETTINGS.dwell_s  # an answer forgives


def test_refusals_in_a_row_close_a_target_and_an_answer_between_them_does_not() -> None:
    health = TargetHealth().refused(0.0).refused(0.1).answered().refused(0.2).refused(0.3)
    assert health.closed(0.3) == ""
    busy = health.refused(0.4)
    assert (busy.closed(0.4), busy.at(0.4)) == ("busy", Standing.OVERLOADED)
    assert busy.answered().closed(0.5) == "busy"  # what was taken on before says nothing of what would be now
    assert TargetHealth().refused(0.0, for_good=True).at(0.0) is Standing.GONE


def test_each_return_that_fails_takes_twice_as_long_up_to_a_bound_and_calm_is_rewarded() -> None:
    health, now_s, dwells_s = TargetHealth(), 0.0, []
    for _ in range(7):
        health = health.measured(InFlight(50, 5.0, 60.0), now_s)
        dwells_s.append(health.until_s - now_s)
        now_s = health.until_s + 1.0
    assert dwells_s == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    calm = health.measured(InFlight(50, 5.0, 60.0), health.until_s + SETTINGS.calm_s)
    assert calm.dwell_s == SETTINGS.dwell_s


def test_a_target_that_has_come_back_is_on_trial_and_its_first_refusal_is_enough() -> None:
    busy = TargetHealth().refused(0.0).refused(0.1).refused(0.2)
    assert busy.refused(2.3).closed(2.3) == "busy"
    assert busy.refused(2.2 + SETTINGS.calm_s).closed(2.2 + SETTINGS.calm_s) == ""


def test_an_overloaded_target_that_goes_is_gone() -> None:
    gone = TargetHealth().refused(0.0, for_good=True).present("offline", 0.5)
    assert gone.closed(100.0) != ""
    assert TargetHealth().overdue(0.0).present("offline", 0.5).closed(100.0) == "offline"


def test_more_under_way_than_littles_law_gives_is_an_overload() -> None:
    assert not piles_up(InFlight(6, 50.0, 60.0), SETTINGS)  # 3 are expected
    assert not piles_up(InFlight(8, 50.0, 60.0), SETTINGS)
    assert piles_up(InFlight(9, 50.0, 60.0), SETTINGS)
    assert not piles_up(InFlight(3, 0.0, 60.0), SETTINGS)  # too few to judge by
    assert not piles_up(InFlight(99, 5.0, None), SETTINGS)  # nothing is expected
    assert not piles_up(InFlight(9, 1.0, 60.0, young=9), SETTINGS)  # they have just begun to come
    assert piles_up(InFlight(9, 1.0, 60.0, young=2), SETTINGS)


def test_a_target_in_balance_is_hardly_ever_taken_for_overloaded_and_one_that_fills_always_is() -> None:
    rng = Random(1)

    def most_under_way(per_s: float, servers: int, run_s: float) -> list[bool]:
        """What is judged at each of 3,000 arrivals at random, with runs of exponential times."""
        now_s, ends, found = 0.0, list[float](), list[bool]()
        free = [0.0] * servers
        for _ in range(3000):
            now_s += rng.expovariate(per_s)
            first = min(range(servers), key=free.__getitem__)
            free[first] = max(now_s, free[first]) + rng.expovariate(1 / run_s)
            ends = [end for end in ends if end > now_s] + [free[first]]
            found.append(piles_up(InFlight(len(ends), per_s, run_s * 1e3), SETTINGS))
        return found

    assert sum(most_under_way(100.0, 200, 0.06)) / 3000 < 0.01
    assert all(most_under_way(100.0, 4, 0.06)[-1000:])  # 1.5 times what it can do


@pytest.mark.parametrize(
    ("standing", "overdue", "moved"),
    [
        (Standing.GONE, False, True),
        (Standing.SILENT, False, False),
        (Standing.SILENT, True, True),
        (Standing.OVERLOADED, False, False),
        (Standing.TAKING, True, True),
    ],
)
def test_all_moves_from_what_is_gone_and_else_what_is_overdue(standing: Standing, overdue: bool, moved: bool) -> None:
    assert moves(standing, overdue=overdue) is moved


def test_a_neighbour_of_the_tier_is_asked_before_another_tier_even_if_that_is_cheaper() -> None:
    choice = move(ASK, Tier.EDGE, (NEIGHBOUR, CLOUD), WeightedCost(), 0.0)
    assert choice.plan == ("edge-2",)
    assert choice.not_taken["cloud"].why is Why.NEIGHBOUR


@pytest.mark.parametrize("change", [{"latency": Latency(130.0, 130.0)}, {"closed": "overdue"}, {"room": 0.0}])
def test_without_a_neighbour_that_can_the_next_tier_is_asked(change: dict[str, Any]) -> None:
    neighbour = replace(NEIGHBOUR, **change)
    choice = move(ASK, Tier.EDGE, (neighbour, CLOUD), WeightedCost(), 0.0)
    assert choice.plan == ("cloud",)
    assert set(choice.not_taken) == {"edge-2"}


def test_a_request_moves_to_no_tier_that_its_camera_forbids() -> None:
    private = replace(ASK, privacy=Privacy(frozenset({Tier.DEVICE, Tier.EDGE})))
    choice = move(private, Tier.EDGE, (CLOUD,), WeightedCost(), 0.0)
    assert (choice.plan, choice.not_taken["cloud"].why) == ((), Why.FORBIDDEN)


def test_a_request_moves_to_one_target_however_many_stages_it_was_to_have() -> None:
    quick = replace(CLOUD, target="quick", latency=Latency(5.0, 5.0), shortfall=0.08)
    slow = replace(CLOUD, target="slow", latency=Latency(60.0, 60.0))
    selector = WeightedCost(TierSettings(PRESETS["latency"]))
    assert len(selector.select(ASK, (quick, slow), Held(), 0.0).plan) == 2
    assert len(move(ASK, Tier.EDGE, (quick, slow), selector, 0.0).plan) == 1


def test_what_can_be_in_time_nowhere_stays() -> None:
    assert move(replace(ASK, remaining_ms=30.0), Tier.EDGE, (NEIGHBOUR, CLOUD), WeightedCost(), 0.0).plan == ()


events = st.sampled_from(("present", "offline", "answered", "overdue", "refused", "stops", "piles", "flows"))


def after(health: TargetHealth, event: str, now_s: float) -> TargetHealth:
    match event:
        case "present" | "offline":
            return health.present("" if event == "present" else event, now_s)
        case "answered":
            return health.answered()
        case "overdue":
            return health.overdue(now_s)
        case "refused" | "stops":
            return health.refused(now_s, for_good=event == "stops")
        case _:
            return health.measured(InFlight(99 if event == "piles" else 1, 5.0, 50.0), now_s)


@given(st.lists(st.tuples(events, st.floats(0.0, 3.0)), max_size=60))
def test_whatever_happens_a_target_that_is_there_takes_requests_again_within_the_longest_dwell(
    course: list[tuple[str, float]],
) -> None:
    health, now_s, there = TargetHealth(), 0.0, True
    for event, gap_s in course:
        now_s += gap_s
        was_closed, until_s = health.closed(now_s), health.until_s
        health = after(health, event, now_s)
        there = event == "present" or (there and event != "offline")
        assert bool(health.closed(now_s)) == (health.at(now_s) is not Standing.TAKING)
        if not there:
            assert health.closed(now_s + 1e9)
        else:
            assert not health.closed(now_s + SETTINGS.dwell_most_s)
        if was_closed and event in ("overdue", "refused", "piles"):
            assert health.until_s == until_s  # what is known already keeps nobody away for longer
    assert not health.present("", now_s).closed(now_s + SETTINGS.dwell_most_s)
    assert health.until_s < math.inf or not there
