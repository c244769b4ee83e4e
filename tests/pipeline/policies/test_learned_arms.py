"""How crops are drawn is learned from trials, one sure step at a time."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.metrics.matching import Score
from pipeline.policies.crop_arms import ARMS, CropArm
from pipeline.policies.learned_arms import LEAST_LOOKS, LearnedArms, neighbours

FIRST = CropArm()
CHEAP, RICH = CropArm(quality=40), CropArm(scale=0.75)
BOXES = 10


def size_of(arm: CropArm) -> float:
    """Bytes in multiples of the first arm's: about by pixels and quality."""
    return (1 + 2 * arm.padding) ** 2 * arm.scale**2 * arm.quality / ((1 + 2 * 0.15) ** 2 * 0.6**2 * 60)


def tried(trials: int, misses: dict[CropArm, float], otherwise: float, seed: int = 0) -> LearnedArms:
    """After so many trials of what is next, where a box is missed with a probability by arm."""
    learned, rng = LearnedArms.beginning(FIRST), Random(seed)
    for _ in range(trials):
        arm = learned.next_trial
        missed = sum(rng.random() < misses.get(arm, otherwise) for _ in range(BOXES))
        learned = learned.learn(arm, Score(BOXES - missed, 0, missed), size_of(arm))
    return learned


def test_the_arms_beside_one_are_a_single_step_away_also_where_it_is_none_of_the_usual_ones() -> None:
    assert set(neighbours(FIRST)) <= set(ARMS)
    assert len(neighbours(FIRST)) == 6
    assert neighbours(CropArm(0.1, 0.5, 40)) == (CropArm(0.15, 0.5, 40), CropArm(0.1, 0.6, 40), CropArm(0.1, 0.5, 60))
    odd = neighbours(CropArm(0.5, 0.65, 95))
    assert odd == (CropArm(0.25, 0.65, 95), CropArm(0.5, 0.6, 95), CropArm(0.5, 0.75, 95), CropArm(0.5, 0.65, 80))


def test_without_evidence_it_stays_with_the_first_arm_and_tries_all_around_it_alike() -> None:
    learned = tried(7 * int(LEAST_LOOKS) - 7, {}, 0.0)
    assert learned.current == FIRST
    assert set(learned.known) == {FIRST, *neighbours(FIRST)}
    looks = [evidence.looks for evidence in learned.known.values()]
    assert max(looks) - min(looks) < 1.1


def test_it_moves_to_a_cheaper_arm_that_shows_the_same() -> None:
    learned = tried(3_000, {FIRST: 0.02, CHEAP: 0.02}, 0.2)
    assert learned.current == CHEAP


def test_it_moves_to_a_dearer_arm_that_surely_shows_more() -> None:
    assert tried(3_000, {RICH: 0.02}, 0.15).current.scale > FIRST.scale


def test_a_dearer_arm_that_shows_a_little_more_is_not_worth_its_bytes() -> None:
    learned = LearnedArms.beginning(FIRST)
    for _ in range(2_000):
        arm = learned.next_trial
        missed = 200 if size_of(arm) > 1 else 500 if arm == FIRST else 3_000
        learned = learned.learn(arm, Score(10_000 - missed, 0, missed), size_of(arm))
    assert learned.current == FIRST


@pytest.mark.parametrize("seed", range(5))
def test_it_never_moves_to_an_arm_that_loses_clearly_more(seed: int) -> None:
    assert tried(2_000, {FIRST: 0.02}, 0.08, seed).current == FIRST


def test_small_losses_do_not_add_up() -> None:
    learned = LearnedArms.beginning(FIRST)
    for _ in range(3_000):  # each step down loses less than the bound, and two of them more
        arm = learned.next_trial
        steps = (arm.quality < 60) + (arm.scale < 0.6) + (arm.padding < 0.15)
        learned = learned.learn(arm, Score(10_000 - 140 * steps, 0, 140 * steps), size_of(arm))
    assert learned.current in {arm for arm in neighbours(FIRST) if size_of(arm) < 1}


def test_what_has_changed_since_is_learned_anew() -> None:
    learned = tried(3_000, {FIRST: 0.02, CHEAP: 0.02}, 0.2)
    rng = Random(1)
    for _ in range(6_000):  # night has come: the cheap arm shows little
        arm = learned.next_trial
        missed = sum(rng.random() < (0.02 if arm.quality >= 60 else 0.3) for _ in range(BOXES))
        learned = learned.learn(arm, Score(BOXES - missed, 0, missed), size_of(arm))
    assert learned.current.quality >= 60


def test_an_arm_is_no_cheaper_without_need_than_the_margin_of_a_change() -> None:
    learned = LearnedArms.beginning(FIRST)
    for _ in range(2_000):
        learned = learned.learn(learned.next_trial, Score(BOXES, 0, 0), 0.97)
    assert learned.current == FIRST


scores = st.builds(Score, st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))


@given(st.lists(st.tuples(scores, st.floats(0.05, 20.0)), max_size=300), st.sampled_from(ARMS))
def test_whatever_the_trials_say_the_memory_is_bounded_and_survives_json(
    trials: list[tuple[Score, float]], first: CropArm
) -> None:
    learned = LearnedArms.beginning(first)
    for score, size in trials:
        before = learned.current
        learned = learned.learn(learned.next_trial, score, size)
        assert learned.current in {before, first, *neighbours(before)}
    assert len(learned.known) <= len(ARMS)
    assert all(0 < evidence.agreement < 1 for evidence in learned.known.values())
    assert LearnedArms.from_dict(json.loads(json.dumps(learned.as_dict()))) == learned


@pytest.mark.parametrize(
    "change",
    [
        {"current": None},
        {"current": {"padding": 0.1, "scale": 0, "quality": 60}},
        {"known": 3},
        {"known": [{}]},
        {"known": [{"padding": 0.1, "scale": 1, "quality": 60} | dict.fromkeys(("right", "wrong", "missed"), 1.0)]},
        {"known": [{"padding": 0.1, "scale": 1, "quality": 60, "right": float("nan"), "wrong": 0, "missed": 0}]},
    ],
)
def test_what_was_not_learned_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="crop"):
        LearnedArms.from_dict(LearnedArms.beginning(FIRST).as_dict() | change)
