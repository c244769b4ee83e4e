"""A question is spared only where each of its places looks as it did, and audits see to it that this stays right."""

import random
from dataclasses import dataclass

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.frames import Image
from pipeline.policies.near_duplicate import (
    Ask,
    AskReason,
    Look,
    NearDuplicates,
    NearDuplicateSettings,
    Reuse,
    difference_hash,
)

LAX = NearDuplicateSettings(most_bits=6, ttl_s=1.0)
SERVED = frozenset({"m@1"})
ALL_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Word:
    """An answer, which the small model backs where it gives at least ``least_score``."""

    text: str
    least_score: float = 0.0

    def agrees(self, other: "Word") -> bool:
        return self.text == other.text

    def backed(self, score: float) -> bool:
        return score >= self.least_score


PERSON, NOTHING = Word("person"), Word("nothing")


def kept_of(settings: NearDuplicateSettings = LAX) -> NearDuplicates[Word]:
    return NearDuplicates(settings)


def ask(kept: NearDuplicates[Word], now_s: float, *looks: Look, audit: bool = False) -> Reuse[Word] | Ask:
    return kept.decide(looks, SERVED, now_s, audit=audit)


def scene(seed: int, width: int = 60, height: int = 120) -> Image:
    """A smooth random picture."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 4, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)


def bits_of(picture: Image) -> int:
    bits = difference_hash(picture)
    assert bits is not None
    return bits


def test_noise_light_and_size_hardly_change_the_hash_and_another_picture_does() -> None:
    picture = scene(1)
    noise = np.random.default_rng(2).normal(0, 4, picture.shape)
    noisy = np.clip(picture + noise, 0, 255).astype(np.uint8)
    darker = (picture * 0.7).astype(np.uint8)
    larger = np.asarray(cv2.resize(picture, (75, 150)), np.uint8)
    for alike in (noisy, darker, larger):
        assert (bits_of(picture) ^ bits_of(alike)).bit_count() <= 4
    others = [(bits_of(picture) ^ bits_of(scene(seed))).bit_count() for seed in range(10, 20)]
    assert min(others) > 12


def test_a_picture_without_structure_has_no_hash_and_is_always_asked_about() -> None:
    flat: Image = np.full((50, 50, 3), 90, np.uint8)
    assert difference_hash(flat) is None
    kept = kept_of()
    kept.answered(Look("t", None), "m@1", PERSON, at_s=0.0)
    assert ask(kept, 0.1, Look("t", None)) == Ask(AskReason.UNKNOWN)


def test_a_look_at_what_has_no_structure_forgets_what_was_said_before() -> None:
    kept = kept_of()
    kept.answered(Look("t", 0), "m@1", PERSON, at_s=0.0)
    kept.answered(Look("t", None), "m@1", NOTHING, at_s=0.2)
    assert ask(kept, 0.3, Look("t", 0)) == Ask(AskReason.UNKNOWN)


def test_a_place_that_looks_the_same_is_spared_for_a_while() -> None:
    kept = kept_of()
    assert ask(kept, 0.0, Look("t", 0b1111)) == Ask(AskReason.UNKNOWN)
    kept.answered(Look("t", 0b1111), "m@1", PERSON, at_s=0.0)
    assert ask(kept, 0.5, Look("t", 0b1100)) == Reuse((PERSON,), 2, 0.5)
    assert ask(kept, 0.5, Look("t", ALL_BITS)) == Ask(AskReason.DIFFERENT)
    assert ask(kept, 1.0, Look("t", 0b1111)) == Ask(AskReason.OLD)
    assert ask(kept, 0.5, Look("other", 0b1111)) == Ask(AskReason.UNKNOWN)
    assert ask(kept, 0.5) == Ask(AskReason.UNKNOWN), "about nothing"
    assert (kept.reused, kept.asked.total()) == (1, 5)


def test_a_question_is_spared_only_if_all_of_its_places_are_known() -> None:
    kept = kept_of()
    kept.answered(Look("a", 0), "m@1", PERSON, at_s=0.0)
    kept.answered(Look("b", 0), "m@1", NOTHING, at_s=0.2)
    assert ask(kept, 0.5, Look("a", 0), Look("b", 1)) == Reuse((PERSON, NOTHING), 1, 0.5)
    assert ask(kept, 0.5, Look("a", 0), Look("c", 0)) == Ask(AskReason.UNKNOWN)


def test_an_answer_that_the_small_model_does_not_back_needs_a_picture_much_more_alike() -> None:
    kept = kept_of()
    kept.answered(Look("t", 0), "m@1", Word("person", least_score=0.5), at_s=0.0)
    assert isinstance(ask(kept, 0.1, Look("t", 0b111111, score=0.5)), Reuse)
    assert ask(kept, 0.1, Look("t", 0b111, score=0.4)) == Ask(AskReason.DIFFERENT)
    unbacked = ask(kept, 0.1, Look("t", 0b11, score=0.4))
    assert isinstance(unbacked, Reuse)
    assert unbacked.distance == 6


def test_changes_that_are_each_small_do_not_add_up_unseen() -> None:
    kept = kept_of(NearDuplicateSettings(most_bits=3, ttl_s=99.0))
    kept.answered(Look("t", 0), "m@1", PERSON, at_s=0.0)
    decisions = [ask(kept, float(n), Look("t", (1 << n) - 1)) for n in range(6)]
    assert [isinstance(decision, Reuse) for decision in decisions] == [True] * 4 + [False] * 2


def test_an_answer_is_used_while_its_model_is_served_whoever_else_serves_another() -> None:
    kept = kept_of()
    kept.answered(Look("t", 0), "m@1", PERSON, at_s=0.0)
    for _ in range(3):
        kept.answered(Look("u", 0), "m@1", PERSON, at_s=0.0)
        kept.forget("u")
    both = kept.decide([Look("t", 0)], {"m@1", "m@2"}, 0.1, audit=False)
    assert isinstance(both, Reuse)
    assert kept.decide([Look("t", 0)], {"m@2"}, 0.1, audit=False) == Ask(AskReason.UNKNOWN)
    assert kept.decide([Look("t", 0)], {"m@1", "m@2"}, 0.1, audit=False) == Ask(AskReason.UNKNOWN), "forgotten for good"


def test_what_was_drawn_for_an_audit_is_asked_although_it_is_known() -> None:
    kept = kept_of()
    kept.answered(Look("t", 0), "m@1", PERSON, at_s=0.0)
    assert ask(kept, 0.1, Look("t", 0), audit=True) == Ask(AskReason.AUDIT)
    assert isinstance(ask(kept, 0.1, Look("t", 0)), Reuse)


def test_an_answer_that_was_overtaken_by_that_to_a_later_look_changes_nothing() -> None:
    kept = kept_of()
    kept.answered(Look("t", 0), "m@1", Word("later"), at_s=0.4)
    kept.answered(Look("t", 0), "m@1", Word("earlier"), at_s=0.2)
    assert ask(kept, 0.5, Look("t", 0)) == Reuse((Word("later"),), 0, 0.5 - 0.4)
    assert kept.disagreement is None


def test_a_clock_that_falls_makes_answers_unknown_rather_than_young() -> None:
    kept = kept_of()
    kept.answered(Look("t", 0), "m@1", PERSON, at_s=5.0)
    assert ask(kept, 0.0, Look("t", 0)) == Ask(AskReason.UNKNOWN)


def audit(kept: NearDuplicates[Word], bits: int, *, agrees: bool, model: str = "m@1") -> None:
    """One look at a place of its own that differs by so many bits from the one before."""
    kept.answered(Look("audited", 0), model, Word("x"), at_s=0.0)
    kept.answered(Look("audited", (1 << bits) - 1), model, Word("x" if agrees else "y"), at_s=0.5)
    kept.forget("audited")


def test_one_contradiction_may_be_chance_and_more_than_two_in_a_hundred_are_not() -> None:
    kept = kept_of()
    audit(kept, 5, agrees=False)
    assert kept.most_bits == 6
    for _ in range(99):
        audit(kept, 2, agrees=True)
    audit(kept, 5, agrees=False)
    assert kept.most_bits == 6
    assert kept.disagreement == pytest.approx(2 / 101)
    audit(kept, 5, agrees=False)
    assert (kept.most_bits, kept.disagreement) == (4, 0.0)


def test_trust_comes_back_when_contradictions_are_long_past() -> None:
    kept = kept_of(NearDuplicateSettings(most_bits=6, ttl_s=1.0, audits=60))
    for _ in range(3):
        audit(kept, 0, agrees=False)
    assert kept.most_bits == -1
    assert ask(kept, 0.0, Look("t", 0)) == Ask(AskReason.DISTRUSTED)
    for _ in range(60):
        audit(kept, 3, agrees=True)
    assert kept.most_bits == 6


def test_audits_of_a_model_that_is_gone_say_nothing_of_the_next() -> None:
    kept = kept_of()
    for _ in range(3):
        audit(kept, 0, agrees=False)
    kept.decide([], {"m@2"}, 1.0, audit=False)
    assert (kept.most_bits, kept.disagreement) == (6, None)
    kept.answered(Look("t", 0), "m@1", Word("x"), at_s=0.0)
    kept.answered(Look("t", 0), "m@2", Word("y"), at_s=0.5)
    assert kept.disagreement is None, "two models may differ"


@pytest.mark.parametrize(("wrong_above_bits", "settles_at"), [(64, 6), (3, 3), (0, 0), (-1, -1)])
def test_the_audit_finds_how_alike_is_alike_enough(wrong_above_bits: int, settles_at: int) -> None:
    """Kept answers are wrong where more bits differ than ``wrong_above_bits``; differences are uniform in 0 to 8."""
    chance = random.Random(5)
    kept = kept_of()
    wrong = 0
    for step in range(8_000):
        key, differing = str(step), chance.randint(0, 8)
        look, right = Look(key, (1 << differing) - 1), differing <= wrong_above_bits
        kept.answered(Look(key, 0), "m@1", Word("x"), at_s=float(step))
        decision = ask(kept, step + 0.1, look, audit=chance.random() < LAX.bypass_share)
        if isinstance(decision, Reuse):
            wrong += not right
        else:
            kept.answered(look, "m@1", Word("x" if right else "y"), at_s=step + 0.1)
    assert kept.most_bits == settles_at
    assert wrong <= 0.02 * 8_000


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from("12"), st.integers(0, 255), st.floats(0, 0.999), st.booleans()
        ),
        max_size=120,
    )
)
def test_nothing_old_different_or_of_another_place_or_model_is_ever_reused(
    steps: list[tuple[str, str, int, float, bool]],
) -> None:
    settings = NearDuplicateSettings(most_bits=2, ttl_s=1.0, places=2)
    kept = kept_of(settings)
    at, now_s = dict[str, tuple[str, str, int, float]](), 0.0
    for key, version, bits, passed_s, drawn in steps:
        now_s += passed_s / 2
        decision = kept.decide([Look(key, bits)], {f"m@{version}"}, now_s, audit=drawn)
        if isinstance(decision, Reuse):
            [word] = decision.answers
            from_key, from_version, from_bits, at_s = at[word.text]
            assert (from_key, from_version) == (key, version)
            assert now_s - at_s == decision.age_s < settings.ttl_s
            assert (from_bits ^ bits).bit_count() == decision.distance <= kept.most_bits <= settings.most_bits
            assert not drawn
        else:
            name = str(len(at))
            at[name] = key, version, bits, now_s
            kept.answered(Look(key, bits), f"m@{version}", Word(name), now_s)
        assert len(kept) <= settings.places
