"""Requests go where they can, may, and will be in time; of that where they cost least; and without flapping."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.tier_cost import PRESETS, Allowance, Expense, Tier, cost
from pipeline.policies.tier_offers import Announced, Ask, Latency, Offer, Privacy, Why, latency, obstacle, wait_changed
from pipeline.policies.tiers import TIER_KINDS, Choice, Held, Reason, TierSettings, WeightedCost

LARGE = frozenset({"large"})
DEVICE = Offer(
    "device",
    Tier.DEVICE,
    frozenset({"large"}),
    1.0,
    Latency(60.0, 60.0),
    energy_j=1.8,
    transfer_cost=0.0,
    shortfall=0.08,
)
EDGE = Offer(
    "edge", Tier.EDGE, frozenset({"large"}), 8.0, Latency(40.0, 40.0), energy_j=0.8, transfer_cost=0.0, shortfall=0.03
)
CLOUD = Offer("cloud", Tier.CLOUD, frozenset({"large", "huge"}), 64.0, Latency(100.0, 110.0), energy_j=0.3)
ASK = Ask(LARGE, 10_000.0, 200.0, 180.0)
ALL = (DEVICE, EDGE, CLOUD)

latencies = st.none() | st.floats(1.0, 400.0).map(lambda mean_ms: Latency(mean_ms, 1.3 * mean_ms))
asks = st.builds(
    Ask,
    st.sets(st.sampled_from(("large", "huge")), min_size=1).map(frozenset),
    st.floats(0.0, 50_000.0),
    st.just(200.0),
    st.floats(0.0, 200.0),
    st.floats(0.0, 10.0),
    st.just(Privacy()) | st.builds(Privacy, st.frozensets(st.sampled_from(Tier)), st.frozensets(st.sampled_from(Tier))),
    st.booleans(),
    st.none() | st.floats(0.0, 50_000.0),
    st.none() | st.floats(0.0, 0.3),
)


@st.composite
def offers(draw: st.DrawFn) -> tuple[Offer, ...]:
    def one(number: int) -> Offer:
        return Offer(
            f"target-{number}",
            draw(st.sampled_from(Tier)),
            draw(st.sampled_from((LARGE, frozenset({"large", "huge"})))),
            draw(st.floats(5.0, 20.0)),
            draw(latencies),
            draw(st.floats(0.0, 5.0)),
            draw(st.floats(0.0, 1.0)),
            draw(st.floats(0.0, 0.2)),
            draw(st.sampled_from(("", "", "", "overdue"))),
        )

    return tuple(one(number) for number in range(draw(st.integers(0, 4))))


def select(ask: Ask = ASK, given: tuple[Offer, ...] = ALL, preset: str = "balanced", **settings: Any) -> Choice:
    return WeightedCost(TierSettings(PRESETS[preset], **settings)).select(ask, given, Held(), 0.0)


def why(choice: Choice) -> dict[str, Why]:
    return {target: reason.why for target, reason in choice.not_taken.items()}


@pytest.mark.parametrize(
    ("preset", "plan"),
    [
        ("latency", ("edge",)),
        ("bandwidth", ("edge",)),
        ("energy", ("cloud",)),
        ("balanced", ("edge",)),
    ],
)
def test_the_weights_decide_between_tiers_that_could_all_be_in_time(preset: str, plan: tuple[str, ...]) -> None:
    choice = select(preset=preset, two_stage=False)
    assert (choice.plan, choice.reason) == (plan, Reason.LEAST_COST)
    assert set(why(choice).values()) == {Why.DEARER}
    assert choice.leaving_bytes == (ASK.size_bytes if plan == ("cloud",) else 0.0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"privacy": Privacy(frozenset({Tier.DEVICE, Tier.EDGE}))}, {"cloud": Why.FORBIDDEN}),
        ({"privacy": Privacy(masked_only=frozenset({Tier.CLOUD}))}, {"cloud": Why.NOT_MASKED}),
        ({"models": frozenset({"huge"})}, {"device": Why.NO_MODEL, "edge": Why.NO_MODEL}),
        ({"demand": 5.0}, {"device": Why.NO_ROOM}),
        ({"tokens_bytes": 9_999.0}, {"cloud": Why.NO_TOKENS}),
        ({"stands": 0.05}, {"device": Why.NO_BETTER}),
        ({"stands": 0.03}, {"device": Why.NO_BETTER, "edge": Why.NO_BETTER}),
        ({"remaining_ms": 100.0}, {"cloud": Why.LATE}),
        ({"remaining_ms": 110.0}, {}),
    ],
)
def test_what_cannot_or_may_not_answer_is_left_out_with_its_reason(
    changes: dict[str, Any], expected: dict[str, Why]
) -> None:
    ask = replace(ASK, **changes)
    found = {offer.target: reason.why for offer in ALL if (reason := obstacle(ask, offer)) is not None}
    assert found == expected
    assert expected.items() <= why(select(ask)).items()


def test_masked_crops_may_go_where_nothing_else_may() -> None:
    ask = replace(ASK, privacy=Privacy(masked_only=frozenset({Tier.CLOUD})), masked=True)
    assert obstacle(ask, CLOUD) is None


def test_a_reason_is_told_with_its_figures() -> None:
    late = obstacle(replace(ASK, remaining_ms=100.0), CLOUD)
    assert str(late) == "late (110 against 100)"
    assert str(obstacle(replace(ASK, models=frozenset({"none"})), CLOUD)) == "no_model"


def test_where_nobody_can_answer_what_the_device_has_found_stands() -> None:
    choice = select(replace(ASK, remaining_ms=10.0))
    assert (choice.plan, choice.reason, choice.cost) == ((), Reason.NOBODY, 0.0)
    assert why(choice) == dict.fromkeys(("device", "edge", "cloud"), Why.LATE)


QUICK = replace(EDGE, latency=Latency(10.0, 10.0), energy_j=0.2, shortfall=0.12)
SOON = replace(CLOUD, latency=Latency(100.0, 100.0))


def test_a_quick_answer_and_a_better_one_after_it_are_both_asked_where_that_is_worth_it() -> None:
    choice = select(given=(QUICK, SOON), preset="latency")
    assert choice.plan == ("edge", "cloud")
    assert select(replace(ASK, most_stages=1), (QUICK, SOON), preset="latency").plan == ("cloud",)
    assert select(given=(QUICK, SOON), preset="latency", two_stage=False).plan == ("cloud",)
    late = replace(SOON, latency=Latency(170.0, 170.0))  # its answer would not stand for long
    assert select(given=(QUICK, late), preset="latency").plan == ("edge",)


def test_two_stages_are_both_under_the_one_deadline_and_within_the_tokens() -> None:
    assert select(replace(ASK, remaining_ms=99.0), (QUICK, SOON), preset="latency").plan == ("edge",)
    billed = (replace(QUICK, transfer_cost=0.5), SOON)
    assert select(replace(ASK, tokens_bytes=14_999.0), billed, preset="latency").plan == ("cloud",)
    assert select(replace(ASK, tokens_bytes=15_000.0), billed, preset="latency").plan == ("edge", "cloud")


def test_a_target_of_which_nothing_is_known_is_tried_only_where_nothing_known_is_in_time() -> None:
    unknown = replace(CLOUD, latency=None)
    known = select(given=(EDGE, unknown), preset="energy")
    assert (known.plan, why(known)) == (("edge",), {"cloud": Why.UNKNOWN})
    tried = select(replace(ASK, remaining_ms=30.0), (EDGE, unknown))
    assert (tried.plan, tried.reason) == (("cloud",), Reason.TRIED)
    two = select(given=(unknown, replace(DEVICE, latency=None)))
    assert len(two.plan) == 1
    assert len(two.not_taken) == 1


def test_a_closed_target_is_left_at_once_and_taken_again_after_the_dwell_time_where_it_is_clearly_cheaper() -> None:
    selector = WeightedCost(TierSettings(two_stage=False))
    held, seen = Held(), []
    for step in range(40):
        now_s = step / 5
        edge = replace(EDGE, closed="overdue" if 1.0 <= now_s < 2.0 else "")
        choice = selector.select(ASK, (edge, CLOUD), held, now_s)
        held = choice.held
        seen.append(choice.plan[0])
    assert seen[:5] == ["edge"] * 5
    assert seen[5:20] == ["cloud"] * 15  # until 3 s after the change
    assert seen[20:] == ["edge"] * 20


def test_a_little_cheaper_is_no_reason_to_change() -> None:
    selector = WeightedCost(TierSettings(two_stage=False))
    near = replace(EDGE, target="a")
    held = selector.select(ASK, (near,), Held(), 0.0).held
    choice = selector.select(ASK, (near, replace(near, target="b", latency=Latency(36.0, 36.0))), held, 10.0)
    assert (choice.plan, choice.reason, choice.held.since_s) == (("a",), Reason.HELD, 0.0)
    assert why(choice) == {"b": Why.HELD_BACK}
    clearly = replace(near, target="b", latency=Latency(1.0, 1.0), energy_j=0.1)
    assert selector.select(ASK, (near, clearly), held, 10.0).plan == ("b",)


def test_a_request_that_nobody_can_answer_changes_no_mind() -> None:
    selector = WeightedCost(TierSettings(two_stage=False))
    held = selector.select(ASK, ALL, Held(), 0.0).held
    assert selector.select(replace(ASK, remaining_ms=1.0), ALL, held, 0.2).held is held


@pytest.mark.parametrize(("kind", "target"), [("fastest", "edge"), ("nearest", "device")])
def test_the_baselines_go_by_one_order(kind: str, target: str) -> None:
    choice = TIER_KINDS[kind](TierSettings()).select(ASK, ALL, Held(), 0.0)
    assert choice.plan == (target,)
    assert set(choice.not_taken) == {offer.target for offer in ALL} - {target}


@pytest.mark.parametrize("kind", TIER_KINDS)
@given(ask=asks, given=offers())
def test_whoever_is_chosen_can_and_may_and_every_other_target_has_its_reason(
    kind: str, ask: Ask, given: tuple[Offer, ...]
) -> None:
    choice = TIER_KINDS[kind](TierSettings()).select(ask, given, Held(), 0.0)
    by_name = {offer.target: offer for offer in given}
    assert set(choice.not_taken) | set(choice.plan) == set(by_name)
    assert not set(choice.not_taken) & set(choice.plan)
    chosen = [by_name[target] for target in choice.plan]
    assert all(obstacle(ask, offer) is None for offer in chosen)
    assert bool(choice.plan) or choice.reason in (Reason.NOBODY, Reason.NOT_WORTH)
    assert (choice.reason is Reason.NOBODY) == all(obstacle(ask, offer) is not None for offer in given)
    assert choice.reason is not Reason.NOT_WORTH or ask.stands is not None
    assert ask.tokens_bytes is None or sum(ask.size_bytes * o.transfer_cost for o in chosen) <= ask.tokens_bytes * 1.001
    assert choice.leaving_bytes == ask.size_bytes * sum(offer.tier is Tier.CLOUD for offer in chosen)
    if Tier.CLOUD not in ask.privacy.tiers:
        assert choice.leaving_bytes == 0
    if len(chosen) == 2:
        assert chosen[1].shortfall < chosen[0].shortfall
        assert chosen[0].latency is not None
        assert chosen[1].latency is not None
        assert chosen[0].latency.mean_ms < chosen[1].latency.mean_ms


@given(asks, offers(), st.sampled_from(sorted(PRESETS)))
def test_without_memory_nothing_that_could_be_had_alone_is_cheaper_than_what_is_chosen(
    ask: Ask, given: tuple[Offer, ...], preset: str
) -> None:
    selector = WeightedCost(TierSettings(PRESETS[preset]))
    choice = selector.select(ask, given, Held(), 0.0)
    if choice.reason in (Reason.NOBODY, Reason.TRIED):
        return
    for offer in given:
        alone = selector.select(ask, (offer,), Held(), 0.0)
        assert alone.reason in (Reason.NOBODY, Reason.TRIED) or choice.cost <= alone.cost + 1e-9


@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(1.0, 190.0), st.floats(1.0, 190.0)), max_size=60))
def test_between_targets_that_can_the_plan_changes_at_most_once_in_the_dwell_time(
    moves: list[tuple[float, float, float]],
) -> None:
    selector, held, now_s, changes_s = WeightedCost(), Held(), 0.0, []
    for gap_s, edge_ms, cloud_ms in moves:
        now_s += gap_s
        two = (
            replace(EDGE, latency=Latency(edge_ms, edge_ms)),
            replace(CLOUD, latency=Latency(cloud_ms, cloud_ms), shortfall=0.03),
        )  # one stage
        choice = selector.select(replace(ASK, remaining_ms=200.0), two, held, now_s)
        if choice.plan != held.plan:
            changes_s.append(now_s)
        held = choice.held
    assert all(b - a >= 3.0 - 1e-9 for a, b in itertools.pairwise(changes_s))


def test_the_answer_that_stands_is_kept_where_a_better_one_is_not_worth_its_cost() -> None:
    good, poor = replace(ASK, stands=0.05), replace(ASK, stands=0.2)
    kept = select(good, (CLOUD,), "bandwidth")
    assert (kept.plan, kept.reason, why(kept)) == ((), Reason.NOT_WORTH, {"cloud": Why.DEARER})
    assert kept.cost == cost(Expense(0.0, shortfall=0.05), 200.0, Allowance(), PRESETS["bandwidth"])
    assert select(poor, (CLOUD,), "bandwidth").plan == ("cloud",)
    assert select(replace(ASK, stands=None), (CLOUD,), "bandwidth").reason is Reason.ONLY


def test_a_target_that_nobody_has_asked_is_judged_by_echoes_and_by_what_it_says_of_itself() -> None:
    path, announced = PathEstimate(), Announced(20.0, 5.0)
    assert latency(path, announced, 1000.0, 0.0) is None
    echoed = path.probed(200.0, 0.0, 10.0, 0.0)
    first, silent = latency(echoed, announced, 200.0, 0.1), latency(echoed, Announced(), 200.0, 0.1)
    assert first is not None
    assert silent is not None
    assert first.mean_ms == pytest.approx(silent.mean_ms + 25.0)
    asked = echoed.answered(RoundTrip("mosaic", 200.0, 0.0, 60.0, 0.0, 50.0), 0.2)
    own, blind = latency(asked, announced, 200.0, 0.3), latency(asked, Announced(), 200.0, 0.3)
    assert own == blind  # what was measured counts, whatever is announced
    assert own is not None
    pessimistic = latency(asked, announced, 200.0, 0.3, deviations=3.0)
    assert pessimistic is not None
    assert own.mean_ms == pessimistic.mean_ms < own.tail_ms < pessimistic.tail_ms


@pytest.mark.parametrize(
    ("told_ms", "now_ms", "changed"),
    [
        (None, 0.0, False),
        (0.0, 20.0, False),
        (0.0, 29.9, False),
        (0.0, 30.0, True),
        (100.0, 200.0, False),
        (90.0, 20.0, True),
    ],
)
def test_a_wait_is_worth_telling_when_it_has_changed_much_for_its_size(
    told_ms: float | None, now_ms: float | None, changed: bool
) -> None:
    assert wait_changed(told_ms, now_ms) is wait_changed(now_ms, told_ms) is changed
