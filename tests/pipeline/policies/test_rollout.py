import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.comparison import Comparison, FrameScore
from pipeline.policies.evidence import ALPHA_SHARES, Evidence, Gate, Looks, RolloutSettings
from pipeline.policies.rollout import RolloutGate, Stage, progress, serves

SETTINGS = RolloutSettings()
GATE = RolloutGate(SETTINGS)
SHARE = st.floats(0.0, 1.0)
SCORES = st.builds(FrameScore, f1=SHARE, missed_all=st.booleans(), brier=st.none() | SHARE)
COMPARISONS = st.builds(Comparison, candidate=SCORES, current=SCORES, objects=st.integers(0, 5))


def score(f1: float, *, missed_all: bool = False, brier: float | None = 0.1) -> FrameScore:
    return FrameScore(f1, missed_all, brier)


def looks(
    candidate_ms: float = 10.0, current_ms: float = 10.0, *, empty: bool = False, room_ms: float = 180.0
) -> Looks:
    return Looks(candidate_ms, current_ms, room_ms, empty, current_empty=False)


def judged(
    found: Comparison, count: int, look: Looks | None = None, promised_ratio: float = 1.0
) -> tuple[Stage, int, str]:
    """Where a candidate ends that does the same on each frame, after how many, and why."""
    evidence, stage = Evidence(), Stage.SHADOW
    for number in range(1, count + 1):
        evidence = evidence.looked(look or looks(), promised_ratio, SETTINGS).compared(found, SETTINGS)
        evidence = replace(evidence, served=1000)
        decision = GATE.decide(stage, evidence, promised_ratio)
        stage = decision.stage
        if stage in (Stage.FULL, Stage.WITHDRAWN):
            return stage, number, decision.reason
    return stage, count, decision.reason


def test_the_parts_of_a_false_withdrawal_add_up_to_the_whole() -> None:
    assert set(ALPHA_SHARES) == set(Gate)
    assert sum(SETTINGS.alpha(gate) for gate in Gate) == pytest.approx(SETTINGS.false_withdrawal)


@pytest.mark.parametrize(
    ("found", "look", "why"),
    [
        (Comparison(score(0.1), score(0.9), 3), None, "agrees less"),
        (Comparison(score(0.5, missed_all=True), score(0.5), 3), None, "shows nothing where the larger"),
        (Comparison(score(0.9, brier=0.9), score(0.9), 3), None, "its scores"),
        (Comparison(score(0.9), score(0.9), 3), looks(candidate_ms=20.0), "slower than promised"),
        (Comparison(score(0.9), score(0.9), 3), looks(200.0, 150.0), "longer than the deadline"),
    ],
)
def test_each_fault_is_withdrawn_well_within_a_hundred_comparisons(
    found: Comparison, look: Looks | None, why: str
) -> None:
    stage, after, reason = judged(found, 100, look)
    assert stage is Stage.WITHDRAWN
    assert after < 60
    assert why in reason


def test_a_candidate_that_is_as_good_is_promoted_and_a_better_one_sooner() -> None:
    same, better = Comparison(score(0.8), score(0.8), 2), Comparison(score(0.95), score(0.7), 2)
    stage, after, reason = judged(same, 400)
    assert stage is Stage.FULL
    assert "F1 0.800" in reason
    assert judged(better, 400)[1] < after


def test_frames_without_objects_promote_nothing() -> None:
    stage, _, reason = judged(Comparison(score(1.0, brier=None), score(1.0, brier=None), 0), 400)
    assert stage is Stage.SHADOW
    assert "with objects" in reason


def test_a_fast_candidate_that_breaks_its_promise_is_slow_although_it_is_no_slower_than_the_current_model() -> None:
    same = Comparison(score(0.9), score(0.9), 3)
    assert judged(same, 100, looks(10.0, 10.0), promised_ratio=0.2)[0] is Stage.WITHDRAWN
    assert judged(same, 200, looks(2.0, 10.0), promised_ratio=0.2)[0] is Stage.FULL


def test_without_the_larger_model_time_and_empty_frames_are_judged_and_nothing_is_promoted() -> None:
    good, blind, slow = Evidence(), Evidence(), Evidence()
    for _ in range(100):
        good = good.looked(looks(), 1.0, SETTINGS)
        blind = blind.looked(looks(empty=True), 1.0, SETTINGS)
        slow = slow.looked(looks(candidate_ms=20.0), 1.0, SETTINGS)
    assert GATE.decide(Stage.SHADOW, good, 1.0).stage is Stage.SHADOW
    assert GATE.decide(Stage.SHADOW, blind, 1.0).gate is Gate.UNSEEN
    assert GATE.decide(Stage.CANARY, slow, 1.0).gate is Gate.SLOW


def test_a_candidate_that_sees_nothing_where_the_current_model_is_wrong_is_not_withdrawn_for_it() -> None:
    evidence, right = Evidence(), Comparison(score(1.0, brier=None), score(0.0), 0)
    for _ in range(100):
        evidence = evidence.looked(looks(empty=True), 1.0, SETTINGS).compared(right, SETTINGS)
    assert GATE.decide(Stage.SHADOW, evidence, 1.0).stage is Stage.SHADOW


def test_what_is_not_decided_for_too_long_goes_back_to_the_shadow_and_says_so() -> None:
    settings = replace(SETTINGS, most_comparisons=50, least_with_objects=1000)
    evidence = Evidence()
    for _ in range(50):
        evidence = evidence.compared(Comparison(score(0.8), score(0.8), 1), settings)
    decision = RolloutGate(settings).decide(Stage.CANARY, evidence, 1.0)
    assert decision.stage is Stage.SHADOW
    assert decision.too_long
    assert "after 50 comparisons" in decision.reason


def test_what_is_not_decided_for_too_long_stays_in_the_shadow() -> None:
    evidence = Evidence()
    for _ in range(60):
        evidence = evidence.looked(looks(), 1.0, SETTINGS).compared(Comparison(score(0.9), score(0.5), 1), SETTINGS)
    assert GATE.decide(Stage.SHADOW, evidence, 1.0).stage is Stage.CANARY
    gate = RolloutGate(replace(SETTINGS, most_comparisons=60, least_served=1000))
    assert gate.decide(Stage.CANARY, evidence, 1.0).too_long
    again = gate.decide(Stage.SHADOW, evidence, 1.0)
    assert again.stage is Stage.SHADOW
    assert again.too_long


def test_a_paused_candidate_goes_no_further_and_can_still_be_withdrawn() -> None:
    good, bad = Evidence(), Evidence()
    for _ in range(200):
        good = good.looked(looks(), 1.0, SETTINGS).compared(Comparison(score(0.9), score(0.5), 1), SETTINGS)
        bad = bad.compared(Comparison(score(0.1), score(0.9), 1), SETTINGS)
    assert GATE.decide(Stage.SHADOW, good, 1.0, paused=True).stage is Stage.SHADOW
    assert GATE.decide(Stage.SHADOW, good, 1.0).stage is Stage.CANARY
    assert GATE.decide(Stage.SHADOW, bad, 1.0, paused=True).stage is Stage.WITHDRAWN


@given(st.lists(COMPARISONS, max_size=40), st.sampled_from([Stage.SHADOW, Stage.CANARY]))
def test_no_candidate_is_ever_promoted_without_evidence_that_it_is_no_worse(
    found: list[Comparison], stage: Stage
) -> None:
    evidence = Evidence()
    for one in found:
        evidence = evidence.looked(looks(), 1.0, SETTINGS).compared(one, SETTINGS)
    evidence = replace(evidence, served=1000)
    decision = GATE.decide(stage, evidence, 1.0)
    if (stage, decision.stage) == (Stage.SHADOW, Stage.CANARY):
        assert evidence.in_favour.refutes(SETTINGS.canary_doubt)
    if decision.stage is Stage.FULL:
        assert stage is Stage.CANARY
        assert evidence.in_favour.refutes(SETTINGS.full_doubt)
    assert decision.reason


@given(st.lists(COMPARISONS, max_size=20))
def test_how_near_a_decision_is_lies_between_nothing_and_enough(found: list[Comparison]) -> None:
    evidence = Evidence()
    for one in found:
        evidence = evidence.compared(one, SETTINGS)
    shares = progress(evidence, SETTINGS)
    assert set(shares) == {*(gate.value for gate in Gate), "in_favour"}
    assert all(0.0 <= share <= 1.0 for share in shares.values())


def test_equally_good_models_with_errors_of_their_own_are_withdrawn_more_rarely_than_stated() -> None:
    rng, withdrawn = random.Random(3), 0
    for _ in range(60):
        evidence = Evidence()
        for _ in range(100):
            scores = [
                score(rng.choice([0.4, 0.7, 1.0]), missed_all=rng.random() < 0.1, brier=rng.random()) for _ in "ab"
            ]
            evidence = evidence.compared(Comparison(scores[0], scores[1], 1), SETTINGS)
        withdrawn += GATE.decide(Stage.SHADOW, evidence, 1.0).stage is Stage.WITHDRAWN
    assert withdrawn == 0


@given(st.text(min_size=1, max_size=8), st.floats(0.0, 1e7), st.sampled_from([0.02, 0.05, 0.1, 0.25]))
def test_a_canary_never_answers_more_than_its_share(camera: str, start_s: float, share: float) -> None:
    settings, evidence = replace(SETTINGS, canary_share=share, slice_s=5.0), Evidence()
    for number in range(400):
        serving = serves(camera, start_s + number * 0.25, evidence, settings)
        evidence = evidence.answered(by_candidate=serving)
        assert evidence.served <= share * evidence.frames


def test_a_canary_answers_whole_slices_one_in_ten_and_not_the_same_for_all_cameras() -> None:
    many = Evidence(frames=10**6)

    def slices(camera: str) -> list[int]:
        drawn = []
        for number in range(100):
            within = {serves(camera, number * 60.0 + at_s, many, SETTINGS) for at_s in (0.0, 30.0, 59.0)}
            assert len(within) == 1
            drawn += [number] if True in within else []
        return drawn

    chosen = {camera: slices(camera) for camera in ("gate", "yard", "hall")}
    assert all(len(drawn) == 10 for drawn in chosen.values())
    assert all({number // 10 for number in drawn} == set(range(10)) for drawn in chosen.values())
    assert len({tuple(drawn) for drawn in chosen.values()}) == 3


def test_a_share_of_nothing_serves_nothing() -> None:
    settings = replace(SETTINGS, canary_share=0.0)
    assert not any(serves("gate", at * 60.0, Evidence(frames=1000), settings) for at in range(100))
