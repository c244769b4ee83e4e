"""Enough is counted in distinct tracks, places and time in view, never in pictures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.enough import EnoughSettings, LessonSummary, Seen, enough, summarise
from pipeline.policies.lesson_marks import Condition, Content, Light, Mark, Spot

FEW = Condition(12, Light.DAY, Content.FEW)


def summary(watched_s: float, hours: tuple[int, ...] = (12,), **labels: Seen) -> LessonSummary:
    return LessonSummary(lessons=100, watched_s=watched_s, hours=hours, labels=labels)


CAMPUS = summary(47.6, person=Seen(2618, 22, 23, 266.4))
"""The first 60 % of vtest."""
CORNER = summary(83.5, person=Seen(319, 8, 12, 32.3))
"""Of one-by-one-person-detection, on which a network of its own fails."""
TABLE = summary(23.7, bottle=Seen(1641, 4, 10, 54.6))
"""Of bottle-detection."""


@pytest.mark.parametrize(("seen", "way"), [(CAMPUS, "own"), (TABLE, "own"), (CORNER, "adapt")])
def test_three_recordings_with_known_outcomes_go_the_way_that_works(seen: LessonSummary, way: str) -> None:
    assert enough(seen).way == way


def test_what_a_network_of_its_own_lacks_is_said() -> None:
    made = enough(CORNER)
    assert made.missing == ("8 distinct tracks of person of 30",)
    assert made.reason == (
        "too little for a network of its own: 8 distinct tracks of person of 30; from 1 hour of 6 that cover a day."
    )


def test_without_an_object_or_with_hardly_any_it_waits_and_says_for_what() -> None:
    assert enough(LessonSummary()).reason == "no object has been seen in 0 lessons."
    made = enough(summary(100.0, person=Seen(3, 1, 1, 0.5)))
    assert made.way == "wait"
    assert made.missing == ("1 distinct tracks of person of 3", "0 seconds with person in view of 5")


def test_a_quiet_scene_needs_many_objects_and_a_busy_one_few() -> None:
    many = summary(3600.0, person=Seen(500, 30, 12, 300.0))
    assert enough(many).way == "own"
    fewer = summary(3600.0, person=Seen(500, 29, 12, 300.0))
    assert enough(fewer).way == "adapt"
    assert enough(replace(fewer, watched_s=100.0)).way == "own"


def test_pictures_alone_are_never_enough() -> None:
    assert enough(replace(CORNER, lessons=10**6)).way == "adapt"


def test_the_weakest_main_class_decides_and_a_sideline_does_not() -> None:
    weak = Seen(500, 1, 1, 1.0)
    assert enough(summary(47.6, person=Seen(2618, 22, 23, 266.4), car=weak)).way == "wait"
    assert enough(summary(47.6, person=Seen(2618, 22, 23, 266.4), car=replace(weak, objects=20))).way == "own"


def test_hours_forbid_nothing_and_are_told() -> None:
    assert enough(CAMPUS).reason.endswith("from 1 hour of 6 that cover a day.")
    assert enough(replace(CAMPUS, hours=(1, 2))).reason.endswith("from 2 hours of 6 that cover a day.")


seens = st.builds(Seen, st.integers(1, 5000), st.integers(0, 60), st.integers(0, 48), st.floats(0, 1000))
RANK = {"wait": 0, "adapt": 1, "own": 2}


@given(seens, st.floats(1, 1000), st.integers(0, 10), st.integers(0, 10), st.floats(0, 100))
def test_more_tracks_places_and_time_in_view_never_make_it_less(
    seen: Seen, watched_s: float, tracks: int, places: int, seen_s: float
) -> None:
    more = Seen(seen.objects, seen.tracks + tracks, seen.places + places, seen.seen_s + seen_s)
    assert RANK[enough(summary(watched_s, person=more)).way] >= RANK[enough(summary(watched_s, person=seen)).way]


@given(seens, st.floats(1, 1000))
def test_what_is_missing_is_said_exactly_where_it_is_not_enough(seen: Seen, watched_s: float) -> None:
    made = enough(summary(watched_s, person=seen), EnoughSettings())
    assert (made.way == "own") == (made.missing == ())
    assert made.reason.endswith(".")


def mark(at_s: float, *spots: Spot, hour: int = 12) -> Mark:
    return Mark(f"{at_s}", at_s, 10, replace(FEW, hour=hour), spots, b"")


def test_lessons_are_counted_by_tracks_places_time_in_view_and_hours() -> None:
    person = Spot("person", 4, 4, -1, 1)
    made = summarise(
        [
            mark(20.0, replace(person, x=6), Spot("person", 4, 4, -1, 2), hour=13),
            mark(10.0, person, Spot("person", 0, 0, -1)),
            mark(12.0, person),
            mark(30.0),
            mark(1000.0),
        ]
    )
    assert made.labels == {"person": Seen(objects=5, tracks=1, places=3, seen_s=10.0)}
    assert (made.lessons, made.empty, made.size_bytes, made.span_s) == (5, 2, 50, 990.0)
    assert made.watched_s == 20.0
    assert made.hours == (12, 13)
    assert made.conditions == {FEW: 4, replace(FEW, hour=13): 1}


def test_what_was_seen_once_is_no_track() -> None:
    made = summarise([mark(1.0, Spot("person", 1, 1, -1, 5)), mark(2.0, Spot("person", 1, 1, -1, 6))])
    assert made.labels["person"].tracks == 0
