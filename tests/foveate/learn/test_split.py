"""Which lessons teach, and which judge."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.lessons.store import LessonStore
from foveate.learn.lesson_files import LessonFiles, read_marks, split_since, wanted_labels
from foveate.learn.split import GAP_S, MOST_JUDGED, MOST_JUDGED_SHARE, MOST_LEARNED, split
from pipeline.policies.lesson_marks import Condition, Content, Light, Mark, Spot
from tests.support.lessons import BEGAN, scene


def mark(number: int, objects: int = 1, apart_s: float = 2.0) -> Mark:
    spots = tuple(Spot("person", number % 16, k, -2, number) for k in range(objects))
    condition = Condition(9, Light.DAY, Content.FEW if objects else Content.EMPTY)
    return Mark(f"{number:06d}", 1000.0 + apart_s * number, 9000, condition, spots, bytes(48))


@given(objects=st.lists(st.integers(0, 3), max_size=300), apart_s=st.floats(0.1, 60))
@settings(deadline=None)
def test_what_judges_is_newer_than_all_that_teaches_and_never_most_of_it(objects: list[int], apart_s: float) -> None:
    parts = split([mark(number, count, apart_s) for number, count in enumerate(objects)][::-1])
    assert len(parts.judged) <= round(len(objects) * MOST_JUDGED_SHARE)
    if parts.learned and parts.judged:
        assert parts.learned[-1].taken_at_s < parts.judged[0].taken_at_s - GAP_S
    assert not {one.name for one in parts.learned} & {one.name for one in parts.judged}


@given(count=st.integers(0, 200), changed=st.integers(-5, 205), empty=st.integers(1, 4))
@settings(deadline=None)
def test_where_the_scene_has_changed_only_what_shows_it_judges_and_the_rest_teaches(
    count: int, changed: int, empty: int
) -> None:
    marks = [mark(number, number % empty) for number in range(count)]
    changed_at_s = 1000.0 + 2.0 * changed
    parts = split_since(marks[::-1], changed_at_s)
    since = [one for one in marks if one.taken_at_s >= changed_at_s]
    assert all(one.taken_at_s >= changed_at_s for one in parts.judged)
    assert len(parts.judged) <= round(len(since) * MOST_JUDGED_SHARE)
    assert {one.name for one in marks if one not in since} <= {one.name for one in parts.learned}
    assert [one.taken_at_s for one in parts.learned] == sorted(one.taken_at_s for one in parts.learned)
    if len(since) >= 60:
        assert {one.name for one in since} & {one.name for one in parts.learned}
    assert split_since(marks, None) == split(marks)


def test_what_is_learned_has_room_for_the_new_scene_first() -> None:
    parts = split_since([mark(i) for i in range(4400)], 1000.0 + 2.0 * 4200)
    assert len(parts.learned) == MOST_LEARNED
    assert sum(one.taken_at_s >= 1000.0 + 2.0 * 4200 for one in parts.learned) > 90


def test_a_newest_part_with_few_objects_is_made_larger() -> None:
    assert len(split([mark(i, int(i < 60)) for i in range(100)]).judged) == 50
    assert len(split([mark(i) for i in range(400)]).judged) == 80


def test_more_lessons_than_can_be_held_are_thinned() -> None:
    parts = split([mark(i) for i in range(5200)])
    assert (len(parts.judged), len(parts.learned)) == (MOST_JUDGED, MOST_LEARNED)


def test_a_restart_finds_the_lessons_parted_as_they_were(tmp_path: Path) -> None:
    store = LessonStore(tmp_path / "lessons")
    for lesson in scene(60):
        store.add(lesson)
    first = LessonFiles(tmp_path / "attempt").part(store.folder)
    assert first.learned + first.judged >= first.lessons - 1
    assert min(first.learned_labels["person"], first.judged_labels["person"]) > 10
    assert first.teacher == "larger@1"
    assert first.learned_from.startswith(f"{BEGAN:%Y-%m-%dT%H:%M}")
    for file in list(store.folder.glob("*.lesson"))[:30]:
        file.unlink()
    again = LessonFiles(tmp_path / "attempt")
    assert again.part(store.folder) == first
    assert len(LessonStore(again.learned).read()) == first.learned
    assert len(again.read_judged()) == first.judged


def test_damaged_lessons_are_left_out(tmp_path: Path) -> None:
    store = LessonStore(tmp_path)
    for lesson in scene(10, empty_share=0.0):
        store.add(lesson)
    files = sorted(tmp_path.glob("*.lesson"))
    files[0].write_bytes(files[0].read_bytes()[:-7])
    assert len(read_marks(tmp_path)) == len(files) - 1


def test_classes_are_those_of_the_camera_or_those_that_are_known_well() -> None:
    assert wanted_labels({"person": 100, "dog": 3}, ()) == ("person",)
    assert wanted_labels({"person": 100}, ("car",)) == ("car",)
