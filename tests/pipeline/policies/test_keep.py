"""Whether a frame is kept: by its change, its gap, the scene's pace, and what earlier frames have shown."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.keep import Change, KeepMemory, KeepRule, KeepSettings, News

LEAST = 0.0004
SETTINGS = KeepSettings(least_area=LEAST, max_gap_s=1.0, idle_share=0.1, audit_share=0.01)
STILL, VISITOR, FIDGET = Change(), Change(elsewhere=10 * LEAST), Change(tracked=1.5 * LEAST)
NOTHING_NEW = News(elsewhere=False, tracked=False)

shares = st.floats(0, 0.5)
changes = st.builds(Change, shares, shares)


def rule() -> KeepRule:
    return KeepRule(SETTINGS)


def test_a_still_frame_is_left_out_and_a_changed_one_kept() -> None:
    assert rule().decide(STILL, 0.2, 0.2) == (False, "unchanged")
    assert rule().decide(VISITOR, 0.2, 0.2) == (True, "changed")


def test_what_a_track_foretells_waits_for_its_turn_and_what_is_elsewhere_does_not() -> None:
    walker = Change(tracked=10 * LEAST)
    assert rule().decide(walker, 0.2, 0.5) == (False, "not_due")
    assert rule().decide(walker, 0.5, 0.5) == (True, "changed")
    assert rule().decide(VISITOR, 0.2, 0.5) == (True, "changed")


def test_who_fidgets_without_news_is_left_out_in_time_and_does_not_hide_a_visitor() -> None:
    fresh = rule()
    for _ in range(30):
        fresh.learn(FIDGET, NOTHING_NEW)
    assert fresh.decide(FIDGET, 0.2, 0.2) == (False, "unchanged")
    assert fresh.decide(Change(elsewhere=1.5 * LEAST, tracked=1.5 * LEAST), 0.2, 0.2) == (True, "changed")


def test_where_nothing_is_ever_idle_sampling_is_uniform_until_it_is_idle_again() -> None:
    fresh = rule()
    for _ in range(150):
        fresh.decide(VISITOR, 0.2, 0.2)
    assert fresh.decide(STILL, 0.2, 0.2) == (True, "never_idle")
    for _ in range(10):
        kept, reason = fresh.decide(STILL, 0.2, 0.2)
    assert (kept, reason) == (False, "unchanged")


def test_a_small_share_of_what_would_be_left_out_is_kept_to_learn_from() -> None:
    fresh = rule()
    reasons = [fresh.decide(STILL, 0.2, 0.2)[1] for _ in range(1000)]
    assert reasons.count("audit") == 10


@given(changes, st.floats(1.0, 1e6), st.floats(0, 10), st.lists(changes, max_size=50))
def test_after_the_maximum_gap_a_frame_is_always_kept(
    change: Change, gap_s: float, period_s: float, before: list[Change]
) -> None:
    fresh = rule()
    for earlier in before:
        fresh.decide(earlier, 0.2, 0.2)
        fresh.learn(earlier, NOTHING_NEW)
    assert fresh.decide(change, gap_s, period_s)[0]


@given(changes, st.floats(-1e6, -1e-3))
def test_when_time_falls_the_frame_is_kept(change: Change, gap_s: float) -> None:
    assert rule().decide(change, gap_s, 0.2)[0]


@given(st.lists(st.tuples(changes, st.booleans(), st.booleans()), max_size=100))
def test_a_change_beyond_every_threshold_is_kept_whatever_was_learned(seen: list[tuple[Change, bool, bool]]) -> None:
    fresh = rule()
    for change, elsewhere, tracked in seen:
        fresh.learn(change, News(elsewhere=elsewhere, tracked=tracked))
    assert fresh.decide(Change(elsewhere=0.1), 0.2, 0.2) == (True, "changed")


# What outlives a restart.


@given(st.lists(st.tuples(changes, st.booleans(), st.booleans()), max_size=60), changes)
def test_a_rule_that_recalls_what_another_has_learned_judges_changes_alike(
    looks: list[tuple[Change, bool, bool]], change: Change
) -> None:
    before, after = rule(), rule()
    for seen, elsewhere, tracked in looks:
        before.learn(seen, News(elsewhere=elsewhere, tracked=tracked))
    after.recall(KeepMemory.from_dict(json.loads(json.dumps(before.memory.as_dict()))))
    assert after.memory == before.memory
    assert after.decide(change, 0.2, 0.2) == before.decide(change, 0.2, 0.2)


def test_what_was_learned_from_another_least_size_does_not_count() -> None:
    before, after = rule(), KeepRule(replace(SETTINGS, least_area=2 * LEAST))
    for _ in range(200):
        before.learn(VISITOR, NOTHING_NEW)
    fresh = after.memory
    after.recall(before.memory)
    assert after.memory == fresh


@pytest.mark.parametrize(
    "change",
    [
        {"least_area": None},
        {"tracked": 3},
        {"elsewhere": {"looks": [1.0], "news": []}},
        {"elsewhere": {"looks": [-1.0], "news": [0.0]}},
        {"tracked": {"looks": [float("nan")], "news": [0.0]}},
    ],
)
def test_what_no_gate_has_learned_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="gate has learned"):
        KeepMemory.from_dict(rule().memory.as_dict() | change)
