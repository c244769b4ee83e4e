"""Lessons are kept by quota: sameness goes, what is rare stays, and no hour or light takes another's room."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.lesson_marks import Condition, Content, Light, Mark, Spot, content_of, light_of
from pipeline.policies.lesson_quota import SAME_EMPTY_S, SAME_S, evictions, shares, too_same

DAY = Condition(12, Light.DAY, Content.FEW)
NIGHT = Condition(2, Light.NIGHT, Content.FEW)
EMPTY = Condition(2, Light.NIGHT, Content.EMPTY)
GREY = bytes([100] * 48)


def mark(
    number: int, condition: Condition = DAY, spots: tuple[Spot, ...] = (Spot("person", 3, 3, -2),), size: int = 100
) -> Mark:
    return Mark(f"{number:06d}", float(number), size, condition, spots, GREY)


def kept(marks: list[Mark], most_bytes: float) -> list[Mark]:
    gone = {eviction.name for eviction in evictions(marks, most_bytes)}
    return [one for one in marks if one.name not in gone]


conditions = st.builds(Condition, st.integers(0, 3), st.sampled_from(Light), st.sampled_from(Content))
spots = st.lists(
    st.builds(Spot, st.sampled_from(["person", "car"]), st.integers(0, 15), st.integers(0, 11), st.integers(-4, 0)),
    max_size=3,
).map(tuple)
some_marks = st.lists(st.tuples(conditions, spots, st.integers(1, 500)), max_size=40).map(
    lambda rows: [mark(number, *row) for number, row in enumerate(rows)]
)


@given(some_marks, st.integers(0, 10_000))
def test_what_stays_never_exceeds_the_budget_and_every_eviction_has_a_reason(marks: list[Mark], most: int) -> None:
    out = evictions(marks, most)
    assert len({eviction.name for eviction in out}) == len(out)
    assert all(eviction.reason for eviction in out)
    assert sum(one.size_bytes for one in kept(marks, most)) <= most
    if sum(one.size_bytes for one in marks) <= most:
        assert out == []


@given(some_marks, st.integers(0, 10_000))
def test_every_condition_keeps_its_share(marks: list[Mark], most: int) -> None:
    sizes: dict[Condition, int] = {}
    for one in marks:
        sizes[one.condition] = sizes.get(one.condition, 0) + one.size_bytes
    weights = {c: 1.0 if c.content is Content.EMPTY else 3.0 for c in sizes}
    largest = max((one.size_bytes for one in marks), default=0)
    for condition, size in sizes.items():
        stays = sum(one.size_bytes for one in kept(marks, most) if one.condition == condition)
        share = most * weights[condition] / sum(weights.values())
        assert stays >= min(size, share) - largest


@given(some_marks, st.integers(0, 10_000), st.randoms())
def test_the_order_of_the_lessons_changes_nothing(marks: list[Mark], most: int, random: object) -> None:
    shuffled = list(marks)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    assert {e.name for e in evictions(shuffled, most)} == {e.name for e in evictions(marks, most)}


@given(st.dictionaries(conditions, st.floats(1, 1000), max_size=10), st.floats(0, 5000))
def test_shares_give_away_all_that_is_wanted_or_all_that_there_is(wanted: dict[Condition, float], most: float) -> None:
    room = shares(wanted, most)
    assert all(0 <= room[condition] <= size for condition, size in wanted.items())
    assert sum(room.values()) == pytest.approx(min(most, sum(wanted.values())))


def test_a_thousand_lessons_of_the_night_never_evict_the_last_ones_of_the_day() -> None:
    day = [mark(number) for number in range(10)]
    marks = list(day)
    for number in range(1000):
        marks = kept([*marks, mark(100 + number, NIGHT)], 5000)
    assert [one for one in marks if one.condition == DAY] == day
    assert sum(one.condition == NIGHT for one in marks) == 40


def test_empty_scenes_have_a_smaller_share() -> None:
    marks = [mark(n, NIGHT) for n in range(100)] + [mark(200 + n, EMPTY, ()) for n in range(100)]
    stay = kept(marks, 8000)
    assert [sum(one.condition == c for one in stay) for c in (NIGHT, EMPTY)] == [60, 20]


@pytest.mark.parametrize(
    "rare",
    [
        (Spot("dog", 3, 3, -2),),
        (Spot("person", 12, 9, -2),),
        (Spot("person", 3, 3, 0),),
        (Spot("person", 3, 3, -2), Spot("person", 3, 3, -2)),
    ],
    ids=["label", "place", "size", "count"],
)
def test_what_is_rare_stays_when_the_common_goes(rare: tuple[Spot, ...]) -> None:
    marks = [mark(0, spots=rare), *(mark(number) for number in range(1, 50))]
    assert mark(0, spots=rare) in kept(marks, 1000)


def test_of_equal_ones_the_oldest_go() -> None:
    assert kept([mark(number) for number in range(10)], 300) == [mark(7), mark(8), mark(9)]


def test_the_same_objects_at_the_same_places_are_not_kept_again_for_a_while() -> None:
    first = mark(0)
    assert "the same objects" in too_same(replace(first, taken_at_s=1.0), [first])
    assert too_same(replace(first, taken_at_s=SAME_S), [first]) == ""
    assert too_same(replace(first, taken_at_s=1.0, spots=(Spot("person", 4, 3, -2),)), [first]) == ""
    assert too_same(replace(first, taken_at_s=1.0, spots=(Spot("dog", 3, 3, -2),)), [first]) == ""


def test_of_few_lessons_the_same_is_kept_sooner_again() -> None:
    first = mark(0)
    later = replace(first, taken_at_s=1.0)
    assert too_same(later, [first], count=100) == ""
    assert "the same objects" in too_same(later, [first], count=1900)


def test_an_empty_scene_is_kept_again_once_it_looks_different_or_time_has_passed() -> None:
    first = mark(0, EMPTY, ())
    later = replace(first, taken_at_s=SAME_EMPTY_S - 1)
    assert "empty scene" in too_same(later, [first])
    assert too_same(replace(first, taken_at_s=SAME_EMPTY_S), [first]) == ""
    brighter = replace(later, look=bytes([140] * 48))
    assert "empty scene" in too_same(brighter, [first])
    changed = replace(later, look=bytes([60] * 24 + [140] * 24))
    assert too_same(changed, [first]) == ""


def test_another_track_at_the_same_place_is_no_other_situation() -> None:
    first = mark(0, spots=(Spot("person", 3, 3, -2, 1),))
    assert too_same(replace(first, taken_at_s=1.0, spots=(Spot("person", 3, 3, -2, 2),)), [first])


def test_the_light_follows_from_brightness_and_colour() -> None:
    made = [light_of(b, coloured=c) for b, c in ((120, True), (70, True), (20, True), (120, False))]
    assert made == [Light.DAY, Light.DUSK, Light.NIGHT, Light.INFRARED]


def test_the_content_follows_from_the_number_of_objects() -> None:
    assert [content_of(n) for n in (0, 1, 3, 4)] == [Content.EMPTY, Content.FEW, Content.FEW, Content.MANY]
