"""Which places of a frame deserve a second look."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.candidates import CandidateSettings, Survey, as_candidates, places, survey
from edge_agent.tracking.history import Entry, Tracker, analysed_answer
from edge_agent.tracking.tracks import Observations, TrackerSettings, Verdict
from pipeline.detections import Detections
from pipeline.geometry import BoxArray, Size
from pipeline.policies.change import NO_BOXES
from pipeline.policies.gain import PRIOR
from pipeline.policies.offload import Candidate, Why
from pipeline.policies.places import FEATURES, PlaceKind

SETTINGS = CandidateSettings(
    recheck_s=0.0, still_recheck_s=1.0, still_speed=0.1, sure_below=0.15, sure_above=0.7, missed_s=1.0
)
TRACKING = TrackerSettings(high_score=0.4, low_score=0.15, forget_s=1.5)
Row = tuple[tuple[float, float, float, float], float]


def found(*rows: Row) -> Detections:
    return Detections.of([r[0] for r in rows], [r[1] for r in rows], ["person"] * len(rows))


def person(x: float, score: float = 0.8) -> Row:
    return (x, 0, x + 20, 40), score


def boxes(*rows: tuple[float, float, float, float]) -> BoxArray:
    return np.array(rows, np.float32).reshape(-1, 4)


def confirmed(*rows: Row) -> Tracker:
    """A tracker whose first frame the cloud has confirmed."""
    tracker = Tracker(TRACKING)
    tracker.observe(0, 0.0, found(*rows))
    tracker.correct(0, Observations(found(*rows), np.full(len(rows), Verdict.CONFIRMED, np.int8), NO_BOXES))
    return tracker


def first(*rows: Row) -> Entry:
    return Tracker(TRACKING).observe(0, 0.0, found(*rows))


def candidates(entry: Entry, motion: BoxArray, settings: CandidateSettings = SETTINGS) -> tuple[Candidate, ...]:
    known = places(entry, motion, settings, TRACKING)
    return as_candidates(known, np.full(len(known), 0.5), settings, due_only=True)


def reasons(entry: Entry, motion: BoxArray = NO_BOXES, settings: CandidateSettings = SETTINGS) -> list[Why]:
    return [place.why for place in candidates(entry, motion, settings)]


@pytest.mark.parametrize(
    ("score", "why"),
    [(0.14, []), (0.16, [Why.UNCERTAIN]), (0.69, [Why.UNCERTAIN]), (0.71, [Why.NEW_TRACK])],
)
def test_an_uncertain_and_a_new_object_deserve_a_look_and_a_hopeless_one_does_not(score: float, why: list[Why]) -> None:
    assert reasons(first(person(0, score))) == why


def test_a_moving_track_is_looked_at_again_and_a_still_one_only_after_its_time() -> None:
    still = confirmed(person(0))
    assert [reasons(still.observe(n, n * 0.2, found(person(0)))) for n in range(1, 5)] == [[]] * 4
    assert reasons(still.observe(5, 1.0, found(person(0)))) == [Why.UNVERIFIED]
    moving = confirmed(person(0))
    last = [reasons(moving.observe(n, n * 0.2, found(person(n * 4.0)))) for n in range(1, 5)][-1]
    assert last == [Why.UNVERIFIED]


def test_what_was_denied_is_not_asked_about_again_at_once() -> None:
    tracker = Tracker(TRACKING)
    tracker.observe(0, 0.0, found(person(0, 0.3)))
    tracker.correct(0, Observations(found(person(0, 0.3)), np.array([Verdict.DENIED], np.int8), NO_BOXES))
    assert reasons(tracker.observe(1, 0.2, found(person(0, 0.3)))) == []


def test_motion_without_a_detection_deserves_a_look_and_motion_of_a_known_object_does_not() -> None:
    motion = boxes((10, 10, 30, 30), (300, 300, 340, 340))
    moving = candidates(first(person(0, 0.1)), motion)
    assert [(place.why, place.box) for place in moving] == [(Why.MOTION, (300, 300, 340, 340))]
    assert reasons(first(), motion) == [Why.MOTION, Why.MOTION]


def test_only_so_many_moving_places_count_the_largest_first() -> None:
    motion = boxes(*((n * 50.0, 100, n * 50.0 + 20, 120) for n in range(9)))
    moving = candidates(first(), motion, CandidateSettings(most_motion=3))
    assert [place.box[0] for place in moving] == [0, 50, 100]


@pytest.mark.parametrize(("after_s", "why"), [(0.8, [Why.MISSED]), (1.2, [])])
def test_a_confirmed_track_that_is_missed_is_looked_for_during_its_time(after_s: float, why: list[Why]) -> None:
    assert reasons(confirmed(person(0)).observe(1, after_s, found())) == why


def test_a_track_that_nobody_confirmed_is_not_looked_for() -> None:
    tracker = Tracker(TRACKING)
    tracker.observe(0, 0.0, found(person(0)))
    assert reasons(tracker.observe(1, 0.2, found())) == []


# The survey.

SIZE = Size(640, 480)


def surveyed(entry: Entry, motion: BoxArray = NO_BOXES) -> Survey:
    return survey(entry, motion, SIZE, PRIOR, SETTINGS, TRACKING)


def test_a_frame_without_anything_is_worth_only_what_the_edge_does_not_see() -> None:
    empty = surveyed(first())
    assert empty.features.shape == (0, len(FEATURES))
    assert empty.frame_gain == PRIOR.unseen_gain


def test_every_place_is_surveyed_also_those_that_the_rules_leave_alone() -> None:
    still = confirmed(person(0))
    seen = surveyed(still.observe(1, 0.2, found(person(0), person(200, 0.5))), boxes((400, 10, 420, 30)))
    assert seen.places.kind.tolist() == [PlaceKind.CONFIRMED, PlaceKind.UNSEEN, PlaceKind.MOTION]
    assert len(as_candidates(seen.places, seen.gain, SETTINGS, due_only=True)) == 2
    every = as_candidates(seen.places, seen.gain, SETTINGS, due_only=False)
    assert [round(place.score, 3) for place in every] == [0.8, 0.5, 0.0]
    assert [place.gain for place in every] == seen.gain.tolist()
    assert seen.frame_gain == pytest.approx(seen.gain.sum() + PRIOR.unseen_gain)


def test_what_a_track_says_is_told_of_its_place() -> None:
    tracker = confirmed(person(0))
    known = places(tracker.observe(1, 0.2, found(person(4, 0.6))), NO_BOXES, SETTINGS, TRACKING)
    assert known.since_verdict_s.tolist() == pytest.approx([0.2])
    assert known.age_s.tolist() == pytest.approx([0.2])
    assert known.score_change.tolist() == pytest.approx([-0.2])
    assert known.hits.tolist() == [2]
    assert known.tracked.tolist() == [True]
    missing = places(tracker.observe(2, 0.6, found()), NO_BOXES, SETTINGS, TRACKING)
    assert missing.kind.tolist() == [PlaceKind.MISSED]
    assert missing.unseen_for_s.tolist() == pytest.approx([0.4])


score = st.integers(20, 100).map(lambda n: n / 100)
scene = st.lists(st.tuples(st.integers(0, 6), score), max_size=5, unique_by=lambda row: row[0])


@given(st.lists(st.tuples(scene, st.booleans()), min_size=1, max_size=6))
def test_published_says_what_the_answer_publishes_and_all_features_are_finite(
    frames: list[tuple[list[tuple[int, float]], bool]],
) -> None:
    tracker = Tracker(TRACKING)
    for seq, (rows, asked) in enumerate(frames):
        seen = found(*(person(80.0 * at, rate) for at, rate in rows))
        entry = tracker.observe(seq, seq * 0.2, seen)
        survey_ = surveyed(entry)
        assert np.isfinite(survey_.features).all()
        assert ((survey_.gain > 0) & (survey_.gain < 1)).all()
        assert survey_.places.published.sum() == len(analysed_answer(entry, SIZE, TRACKING))
        if asked:
            tracker.correct(seq, Observations(seen, np.full(len(seen), Verdict.CONFIRMED, np.int8), NO_BOXES))
