"""A look is spared only for the same object that looks the same, and audits see to it that this stays right."""

import random

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.frames import Image
from pipeline.policies.near_duplicate import (
    Ask,
    AskReason,
    NearDuplicates,
    NearDuplicateSettings,
    Reuse,
    difference_hash,
)

LAX = NearDuplicateSettings(most_bits=6, ttl_s=1.0)


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
    assert min(others) > 8


def test_a_picture_without_structure_has_no_hash_and_is_always_asked_about() -> None:
    flat: Image = np.full((50, 50, 3), 90, np.uint8)
    assert difference_hash(flat) is None
    kept: NearDuplicates[str] = NearDuplicates(LAX)
    kept.answered("t", "1", None, "seen", now_s=0.0)
    assert kept.decide("t", "1", None, draw=0.9, now_s=0.1) == Ask(AskReason.UNKNOWN)


def test_a_track_that_looks_the_same_is_spared_for_a_while() -> None:
    kept: NearDuplicates[str] = NearDuplicates(LAX)
    assert kept.decide("t", "1", 0b1111, draw=0.9, now_s=0.0) == Ask(AskReason.UNKNOWN)
    kept.answered("t", "1", 0b1111, "person", now_s=0.0)
    assert kept.decide("t", "1", 0b1100, draw=0.9, now_s=0.5) == Reuse("person", 2, 0.5)
    assert kept.decide("t", "1", ~0 & (1 << 64) - 1, draw=0.9, now_s=0.5) == Ask(AskReason.DIFFERENT)
    assert kept.decide("t", "1", 0b1111, draw=0.9, now_s=1.0) == Ask(AskReason.OLD)
    assert kept.decide("other", "1", 0b1111, draw=0.9, now_s=0.5) == Ask(AskReason.UNKNOWN)
    assert (kept.reused, kept.asked) == (1, 4)


def test_changes_that_are_each_small_do_not_add_up_unseen() -> None:
    kept: NearDuplicates[str] = NearDuplicates(NearDuplicateSettings(most_bits=3, ttl_s=99.0))
    kept.answered("t", "1", 0, "person", now_s=0.0)
    decisions = [kept.decide("t", "1", (1 << n) - 1, draw=0.9, now_s=float(n)) for n in range(6)]
    assert [isinstance(decision, Reuse) for decision in decisions] == [True] * 4 + [False] * 2


def test_a_new_version_of_the_model_starts_afresh() -> None:
    kept: NearDuplicates[str] = NearDuplicates(LAX)
    kept.answered("t", "1", 0, "person", now_s=0.0)
    for _ in range(4):
        kept.audited("1", agrees=False)
    assert kept.most_bits == 1
    assert kept.decide("t", "2", 0, draw=0.9, now_s=0.1) == Ask(AskReason.UNKNOWN)
    assert kept.most_bits == 6
    kept.audited("1", agrees=False)
    assert kept.disagreement is None, "an audit of the former version"


def test_one_in_twenty_is_asked_all_the_same_and_says_what_was_expected() -> None:
    kept: NearDuplicates[str] = NearDuplicates(LAX)
    kept.answered("t", "1", 0, "person", now_s=0.0)
    assert kept.decide("t", "1", 0, draw=0.049, now_s=0.1) == Ask(AskReason.AUDIT, "person")
    assert isinstance(kept.decide("t", "1", 0, draw=0.05, now_s=0.1), Reuse)


def test_one_contradiction_may_be_chance_and_more_than_two_in_a_hundred_halve_what_may_differ() -> None:
    kept: NearDuplicates[str] = NearDuplicates(LAX)
    kept.decide("t", "1", 0, draw=0.9, now_s=0.0)
    kept.audited("1", agrees=False)
    assert kept.most_bits == 6
    for _ in range(99):
        kept.audited("1", agrees=True)
    kept.audited("1", agrees=False)
    assert kept.most_bits == 6
    assert kept.disagreement == pytest.approx(2 / 101)
    kept.audited("1", agrees=False)
    assert (kept.most_bits, kept.disagreement) == (3, None)


@pytest.mark.parametrize(("wrong_above_bits", "settles_at"), [(64, {6}), (3, {3}), (0, {0}), (-1, {-1})])
def test_the_audit_finds_how_alike_is_alike_enough(wrong_above_bits: int, settles_at: set[int]) -> None:
    """Kept answers are wrong where more bits differ than ``wrong_above_bits``; differences are uniform in 0 to 8."""
    chance = random.Random(5)
    kept: NearDuplicates[str] = NearDuplicates(LAX)
    wrong = 0
    for step in range(20_000):
        kept.answered("t", "1", 0, "x", now_s=float(step))
        differing = chance.randint(0, 8)
        decision = kept.decide("t", "1", (1 << differing) - 1, chance.random(), now_s=step + 0.1)
        if isinstance(decision, Ask) and decision.reason is AskReason.AUDIT:
            kept.audited("1", agrees=differing <= wrong_above_bits)
        elif isinstance(decision, Reuse):
            wrong += differing > wrong_above_bits
    assert kept.most_bits in settles_at
    assert wrong <= 0.02 * 20_000


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from("12"), st.integers(0, 255), st.floats(0, 0.999), st.booleans()
        ),
        max_size=120,
    )
)
def test_nothing_old_different_or_of_another_track_or_version_is_ever_reused(
    steps: list[tuple[str, str, int, float, bool]],
) -> None:
    settings = NearDuplicateSettings(most_bits=2, ttl_s=1.0, tracks=2)
    kept: NearDuplicates[tuple[str, str, int, float]] = NearDuplicates(settings)
    most_bits = settings.most_bits
    version_before = None
    now_s = 0.0
    for track, version, bits, draw, agrees in steps:
        now_s += draw / 2
        decision = kept.decide(track, version, bits, draw, now_s)
        most_bits = settings.most_bits if version != version_before else most_bits
        version_before = version
        assert kept.most_bits <= most_bits, "it only ever tightens"
        most_bits = kept.most_bits
        if isinstance(decision, Reuse):
            from_track, from_version, from_bits, at_s = decision.answer
            assert (from_track, from_version) == (track, version)
            assert now_s - at_s < settings.ttl_s
            assert (from_bits ^ bits).bit_count() == decision.bits <= most_bits
            assert draw >= settings.bypass_share
        else:
            if decision.reason is AskReason.AUDIT:
                kept.audited(version, agrees=agrees)
            kept.answered(track, version, bits, (track, version, bits, now_s), now_s)
        assert len(kept) <= settings.tracks
