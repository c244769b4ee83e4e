"""Which frames get a second look, and why not."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.geometry import Size
from pipeline.policies.offload import (
    OFFLOAD_KINDS,
    STAYING_FACTOR,
    Adaptive,
    Always,
    Candidate,
    MinConfidence,
    Never,
    OffloadSettings,
    OffloadView,
    RandomShare,
    Threshold,
    Why,
    crops,
    obstacle,
)

SURE = Candidate((10, 10, 50, 90), Why.UNVERIFIED, 0.3)
UNSURE = Candidate((200, 100, 240, 180), Why.UNCERTAIN, 0.9)
VIEW = OffloadView(
    candidates=(SURE, UNSURE),
    remaining_ms=150.0,
    round_trip_ms={"mosaic": 80.0, "frame": 80.0},
    expected_bytes={"mosaic": 9000.0, "frame": 20_000.0},
    tokens_bytes=None,
    since_full_frame_s=0.0,
    reachable=True,
)
POLICY = Adaptive(OffloadSettings(full_frame_s=8.0))


def test_the_most_wanted_place_comes_first_and_names_the_reason() -> None:
    decision = POLICY.decide(VIEW)
    assert (decision.kind, decision.reason, decision.wanted) == ("mosaic", "uncertain", False)
    regions = crops(decision.places, OffloadSettings(padding=0, padding_px=0, most_regions=16), Size(320, 240))
    assert regions.tolist() == [list(UNSURE.box), list(SURE.box)]


def test_without_a_candidate_nothing_is_sent_and_nothing_was_wanted() -> None:
    decision = POLICY.decide(replace(VIEW, candidates=()))
    assert (decision.kind, decision.reason, decision.wanted) == ("none", "nothing_uncertain", False)


def test_a_whole_frame_that_cannot_come_in_time_is_searched_for_its_tracks_and_nobody_waits() -> None:
    due = replace(VIEW, since_full_frame_s=8.0, round_trip_ms={"mosaic": 80.0, "frame": 400.0})
    decision = POLICY.decide(due)
    assert (decision.kind, decision.reason, decision.late) == ("frame", "search_late", True)
    assert POLICY.decide(replace(due, tokens_bytes=100.0)).kind != "frame"
    assert POLICY.decide(replace(due, reachable=False, unreachable_reason="no_worker")).kind == "none"
    assert not POLICY.decide(replace(due, round_trip_ms={"mosaic": 80.0, "frame": 80.0})).late


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (replace(VIEW, reachable=False, unreachable_reason="no_worker"), "no_worker"),
        (replace(VIEW, round_trip_ms={"mosaic": 150.1}), "infeasible"),
        (replace(VIEW, tokens_bytes=8999.0), "budget"),
        (replace(VIEW, remaining_ms=-1.0, round_trip_ms={"mosaic": 0.1}), "infeasible"),
    ],
)
def test_what_cannot_be_had_is_not_sent_and_counts_as_wanted(view: OffloadView, reason: str) -> None:
    decision = POLICY.decide(view)
    assert (decision.kind, decision.reason, decision.wanted) == ("none", reason, True)
    assert obstacle(view, "mosaic") == reason


@pytest.mark.parametrize(
    "view",
    [
        replace(VIEW, round_trip_ms={}),
        replace(VIEW, round_trip_ms={"mosaic": 150.0}),
        replace(VIEW, tokens_bytes=9000.0),
        replace(VIEW, tokens_bytes=0.0, expected_bytes={}),
    ],
    ids=["unknown round trip", "just in time", "just within the budget", "unknown size"],
)
def test_the_unknown_and_the_just_possible_are_tried(view: OffloadView) -> None:
    assert POLICY.decide(view).kind == "mosaic"


def test_a_budget_that_an_earlier_estimate_overdrew_lets_nothing_pass() -> None:
    assert obstacle(replace(VIEW, tokens_bytes=-1.0, expected_bytes={}), "mosaic") == "budget"


def test_a_whole_frame_goes_when_its_time_has_come_even_where_nothing_was_seen() -> None:
    due = replace(VIEW, since_full_frame_s=8.0)
    assert POLICY.decide(replace(VIEW, since_full_frame_s=7.9)).kind == "mosaic"
    for view in (due, replace(due, candidates=())):
        assert (POLICY.decide(view).kind, POLICY.decide(view).reason) == ("frame", "search_for_missed")
    never = Adaptive(OffloadSettings(full_frame_s=0.0))
    assert never.decide(due).kind == "mosaic"


def test_mosaics_stand_back_for_one_period_where_only_the_budget_hinders_the_whole_frame() -> None:
    due = replace(VIEW, since_full_frame_s=8.0, tokens_bytes=9000.0)
    saving = POLICY.decide(due)
    assert (saving.kind, saving.reason, saving.wanted) == ("none", "saving_for_full_frame", True)
    assert POLICY.decide(replace(due, since_full_frame_s=16.0)).kind == "mosaic"
    assert POLICY.decide(replace(due, round_trip_ms={"mosaic": 151.0, "frame": 151.0})).reason == "infeasible"


def test_a_binding_budget_still_lets_whole_frames_through() -> None:
    sent, tokens, since_s = [], 0.0, 0.0
    for tick in range(600):  # two minutes at five frames a second and 200 kbit/s
        tokens, since_s = min(50_000.0, tokens + 5000.0), since_s + 0.2
        kind = POLICY.decide(replace(VIEW, since_full_frame_s=since_s, tokens_bytes=tokens)).kind
        tokens -= VIEW.expected_bytes.get(kind, 0.0)
        if kind == "frame":
            sent.append(tick)
            since_s = 0.0
    assert len(sent) >= 12


def test_no_more_regions_than_allowed_go_and_the_best_of_them() -> None:
    many = tuple(Candidate((n * 20, 0, n * 20 + 5, 5), Why.MOTION, n / 100) for n in range(40))
    regions = crops(many, OffloadSettings(padding=0, padding_px=0, most_regions=16), Size(1000, 100))
    assert regions[:, 0].tolist() == [n * 20 for n in range(39, 23, -1)]


def test_places_that_are_joined_count_together() -> None:
    pair = (Candidate((0, 0, 10, 10), Why.MOTION, 0.4), Candidate((8, 0, 18, 10), Why.MOTION, 0.4))
    single = Candidate((100, 0, 110, 10), Why.MISSED, 0.7)
    regions = crops((single, *pair), OffloadSettings(padding=0, padding_px=0, most_regions=1), Size(320, 240))
    assert regions.tolist() == [[0, 0, 18, 10]]


def test_always_sends_frames_unless_hindered_and_never_sends_nothing() -> None:
    assert Always().decide(replace(VIEW, candidates=())).kind == "frame"
    assert Always().decide(replace(VIEW, tokens_bytes=10_000.0)).reason == "budget"
    assert Never().decide(VIEW).kind == "none"


def test_a_random_share_is_that_share_and_repeats_with_its_seed() -> None:
    def kinds(seed: int) -> list[str]:
        policy = RandomShare(0.3, Random(seed))
        return [policy.decide(VIEW).kind for _ in range(2000)]

    assert kinds(7) == kinds(7)
    assert 0.26 < kinds(7).count("mosaic") / 2000 < 0.34


@given(
    st.lists(
        st.tuples(st.floats(0, 300), st.floats(0, 200), st.floats(1, 100), st.floats(1, 100), st.floats(0, 1)),
        min_size=1,
        max_size=30,
    )
)
def test_the_crops_cover_every_chosen_place_with_a_margin_and_lie_in_the_frame(
    places: list[tuple[float, float, float, float, float]],
) -> None:
    size, settings = Size(320, 240), OffloadSettings(padding=0.2, padding_px=10, merge_slack=1.2, most_regions=64)
    candidates = tuple(Candidate((x, y, x + w, y + h), Why.MOTION, gain) for x, y, w, h, gain in places)
    out = crops(candidates, settings, size)
    assert 1 <= len(out) <= len(places)
    assert (out >= 0).all()
    assert (out <= [320, 240, 320, 240]).all()
    for x1, y1, x2, y2 in (place.box for place in candidates):
        wanted = np.clip([x1 - 10, y1 - 10, x2 + 10, y2 + 10], 0, [320, 240, 320, 240])
        inside = (out[:, :2] <= wanted[:2] + 1e-3).all(axis=1) & (out[:, 2:] >= wanted[2:] - 1e-3).all(axis=1)
        assert inside.any()


def test_a_slow_whole_frame_does_not_rule_out_a_mosaic() -> None:
    view = replace(VIEW, round_trip_ms={"mosaic": 60.0, "frame": 190.0})
    assert POLICY.decide(view).kind == "mosaic"


# What a place must bring.

PRICED = replace(VIEW, bytes_per_px=0.1, price_per_kb=0.5)


def gains(view: OffloadView, policy: Adaptive = POLICY) -> list[float]:
    return [place.gain for place in policy.decide(view).places]


def test_a_place_that_will_hardly_change_is_left_out_and_a_frame_of_such_stays_at_the_edge() -> None:
    sure = replace(SURE, gain=0.004)
    assert gains(replace(VIEW, candidates=(sure, UNSURE))) == [UNSURE.gain]
    decision = POLICY.decide(replace(VIEW, candidates=(sure,)))
    assert (decision.kind, decision.reason, decision.wanted) == ("none", "little_gain", False)


def test_a_place_below_the_price_of_its_bytes_is_left_out() -> None:
    dear = Candidate((0, 0, 200, 300), Why.UNVERIFIED, 0.9)  # 260 x 390 px with its margin: 10 kB
    cheap = Candidate((300, 0, 320, 40), Why.UNVERIFIED, 0.9)
    assert POLICY.decide(replace(PRICED, candidates=(dear, cheap))).places == (cheap,)
    decision = POLICY.decide(replace(PRICED, candidates=(dear,)))
    assert (decision.kind, decision.reason, decision.wanted) == ("none", "price", True)


def test_a_request_must_also_bring_what_it_costs_beside_its_pixels() -> None:
    small = Candidate((0, 0, 10, 20), Why.MOTION, 0.3)
    assert POLICY.decide(replace(PRICED, candidates=(small,))).reason == "price"
    assert POLICY.decide(replace(PRICED, candidates=(small,) * 4)).kind == "mosaic"


def test_who_sends_goes_on_at_a_price_at_which_nobody_begins() -> None:
    place = Candidate((0, 0, 84, 84), Why.UNCERTAIN, 1.0)  # 109 px square with its margin
    cost_kb = 1.09**2 + 0.9
    between = replace(PRICED, candidates=(place,), bytes_per_px=0.1, price_per_kb=(1 + STAYING_FACTOR) / 2 / cost_kb)
    assert POLICY.decide(replace(between, sending=True)).kind == "mosaic"
    dearer = replace(between, price_per_kb=1.1 / cost_kb)
    assert POLICY.decide(replace(dearer, sending=True)).kind == "mosaic"
    assert POLICY.decide(replace(dearer, sending=False)).reason == "price"


def test_a_frame_that_was_drawn_has_all_its_places_looked_at_and_says_which_are_only_drawn() -> None:
    hopeless = Candidate((0, 0, 20, 40), Why.UNCERTAIN, 0.001)
    decision = POLICY.decide(replace(VIEW, audited=(hopeless, *VIEW.candidates)))
    assert set(decision.places) == {SURE, UNSURE, hopeless}
    assert decision.drawn == (hopeless,)
    alone = POLICY.decide(replace(VIEW, candidates=(), audited=(hopeless,)))
    assert (alone.kind, alone.reason, alone.drawn) == ("mosaic", "audit", (hopeless,))
    barred = POLICY.decide(replace(VIEW, candidates=(), audited=(hopeless,), reachable=False, unreachable_reason="x"))
    assert (barred.kind, barred.wanted) == ("none", False)


place_of = st.builds(
    lambda x, w, h, gain: Candidate((x, 0.0, x + w, h), Why.UNCERTAIN, gain),
    st.floats(0, 500),
    st.floats(1, 200),
    st.floats(1, 200),
    st.floats(0, 1),
)


@given(st.lists(place_of, max_size=20), st.floats(0, 5), st.floats(0, 5), st.booleans())
def test_the_higher_the_price_the_less_is_sent(places: list[Candidate], low: float, more: float, sending: bool) -> None:
    view = replace(VIEW, candidates=tuple(places), bytes_per_px=0.1, sending=sending)
    cheap = POLICY.decide(replace(view, price_per_kb=low)).places
    dear = POLICY.decide(replace(view, price_per_kb=low + more)).places
    assert set(dear) <= set(cheap) <= set(places)


# The alternatives.


def test_every_kind_makes_a_policy_that_decides() -> None:
    for kind, make in OFFLOAD_KINDS.items():
        decision = make(OffloadSettings(policy=kind)).decide(VIEW)
        assert decision.kind in {"none", "mosaic", "frame"}
        assert decision.reason


def test_the_threshold_takes_what_scores_below_it() -> None:
    low, high = replace(SURE, score=0.4), replace(UNSURE, score=0.8)
    assert Threshold(0.6).decide(replace(VIEW, candidates=(low, high))).places == (low,)
    assert Threshold(0.3).decide(replace(VIEW, candidates=(low, high))).kind == "none"


def test_min_confidence_takes_the_whole_of_a_frame_with_an_unsure_box() -> None:
    assert MinConfidence(0.6).decide(replace(VIEW, least_score=0.5)).places == VIEW.candidates
    assert MinConfidence(0.6).decide(replace(VIEW, least_score=0.7)).kind == "none"
    assert MinConfidence(0.6).decide(VIEW).kind == "none"


# What can be in time.


def test_of_what_cannot_all_be_in_time_the_places_go_that_bring_most_for_their_bytes() -> None:
    large = Candidate((0, 0, 200, 300), Why.UNVERIFIED, 0.9)  # 260 x 390 px with its margin: 10 kB
    small = Candidate((300, 0, 340, 80), Why.UNCERTAIN, 0.5)  # 56 x 104 px: 0.6 kB
    view = replace(VIEW, candidates=(large, small), bytes_per_px=0.1, round_trip_ms={"mosaic": 500.0})
    assert POLICY.decide(replace(view, most_bytes=12_000.0)).places == (large, small)
    trimmed = POLICY.decide(replace(view, most_bytes=10_000.0))
    assert (trimmed.kind, trimmed.reason, trimmed.places) == ("mosaic", "uncertain", (small,))
    nothing = POLICY.decide(replace(view, most_bytes=1_000.0))
    assert (nothing.kind, nothing.reason, nothing.wanted) == ("none", "infeasible", True)


def test_a_small_mosaic_goes_by_its_own_size_and_not_by_the_usual_one() -> None:
    view = replace(VIEW, bytes_per_px=0.1, round_trip_ms={"mosaic": 500.0})
    assert POLICY.decide(view).reason == "infeasible"
    assert POLICY.decide(replace(view, most_bytes=9_000.0)).kind == "mosaic"


def test_time_for_bytes_does_not_lift_what_else_hinders() -> None:
    for change, reason in (
        ({"reachable": False, "unreachable_reason": "no_worker"}, "no_worker"),
        ({"tokens_bytes": 10.0}, "budget"),
    ):
        assert POLICY.decide(replace(VIEW, most_bytes=1e6, **change)).reason == reason


def test_what_is_only_drawn_to_be_learned_from_goes_last() -> None:
    hopeless = Candidate((0, 0, 20, 40), Why.UNCERTAIN, 0.001)
    view = replace(VIEW, audited=(hopeless, *VIEW.candidates), bytes_per_px=0.1, most_bytes=2_100.0)
    decision = POLICY.decide(view)
    assert (decision.places, decision.drawn) == (VIEW.candidates, ())


@given(st.lists(place_of, max_size=20), st.floats(0, 50_000), st.floats(0, 50_000))
def test_what_goes_fits_the_time_and_more_time_brings_no_less(
    places: list[Candidate], most_bytes: float, more_bytes: float
) -> None:
    view = replace(VIEW, candidates=tuple(places), bytes_per_px=0.1)
    short = POLICY.decide(replace(view, most_bytes=most_bytes))
    unbounded = POLICY.decide(view)
    assert set(short.places) <= set(unbounded.places)
    margins = [(x2 - x1, y2 - y1) for x1, y1, x2, y2 in (place.box for place in short.places)]
    shown_px = sum((w + 2 * max(0.15 * w, 8)) * (h + 2 * max(0.15 * h, 8)) for w, h in margins)
    assert not margins or shown_px * 0.1 <= most_bytes
    if short.kind == "mosaic":
        assert POLICY.decide(replace(view, most_bytes=most_bytes + more_bytes)).kind == "mosaic"


def test_where_the_cameras_own_model_looks_a_place_must_promise_more() -> None:
    little = replace(VIEW, candidates=(replace(SURE, gain=0.1), replace(UNSURE, gain=0.3)))
    assert POLICY.decide(little).places == little.candidates
    assert POLICY.decide(replace(little, own_model=True)).places == little.candidates[1:]
    nothing = replace(little, candidates=little.candidates[:1], own_model=True)
    assert (POLICY.decide(nothing).kind, POLICY.decide(nothing).reason) == ("none", "little_gain")
