"""Which places of a frame deserve a second look."""

import numpy as np
import pytest

from edge_agent.candidates import CandidateSettings, candidates
from edge_agent.tracking.history import Entry, Tracker
from edge_agent.tracking.tracks import Observations, TrackerSettings, Verdict
from pipeline.detections import Detections
from pipeline.geometry import BoxArray
from pipeline.policies.change import NO_BOXES
from pipeline.policies.offload import Why

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


def reasons(entry: Entry, motion: BoxArray = NO_BOXES, settings: CandidateSettings = SETTINGS) -> list[Why]:
    return [place.why for place in candidates(entry, motion, settings)]


@pytest.mark.parametrize(
    ("score", "why"),
    [(0.14, []), (0.16, [Why.UNCERTAIN]), (0.69, [Why.UNCERTAIN]), (0.71, [Why.NEW_TRACK])],
)
def test_an_uncertain_and_a_new_object_deserve_a_look_and_a_hopeless_one_does_not(score: float, why: list[Why]) -> None:
    assert reasons(first(person(0, score))) == why


def test_the_less_sure_the_more_a_look_is_worth() -> None:
    places = candidates(first(person(0, 0.5), person(100, 0.65)), NO_BOXES, SETTINGS)
    assert places[0].gain > places[1].gain
    assert all(0 <= place.gain <= 1 for place in places)


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
    places = candidates(first(person(0, 0.1)), motion, SETTINGS)
    assert [(place.why, place.box) for place in places] == [(Why.MOTION, (300, 300, 340, 340))]
    assert reasons(first(), motion) == [Why.MOTION, Why.MOTION]


def test_only_so_many_moving_places_count_the_largest_first() -> None:
    motion = boxes(*((n * 50.0, 100, n * 50.0 + 20, 120) for n in range(9)))
    places = candidates(first(), motion, CandidateSettings(most_motion=3))
    assert [place.box[0] for place in places] == [0, 50, 100]


@pytest.mark.parametrize(("after_s", "why"), [(0.8, [Why.MISSED]), (1.2, [])])
def test_a_confirmed_track_that_is_missed_is_looked_for_during_its_time(after_s: float, why: list[Why]) -> None:
    assert reasons(confirmed(person(0)).observe(1, after_s, found())) == why


def test_a_track_that_nobody_confirmed_is_not_looked_for() -> None:
    tracker = Tracker(TRACKING)
    tracker.observe(0, 0.0, found(person(0)))
    assert reasons(tracker.observe(1, 0.2, found())) == []
