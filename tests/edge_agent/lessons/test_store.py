"""Lessons on disk: whole or not at all, within a budget, and never for anybody who would send them."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_agent.lessons.container import LessonError, decode, header_of
from edge_agent.lessons.lesson import Conditions, Lesson
from edge_agent.lessons.store import INDEX, SAVE_EVERY, LessonStore, PrivacyError
from pipeline.detections import Detections, Source
from pipeline.geometry import Size
from pipeline.policies import lesson_quota
from pipeline.policies.lesson_marks import Content, Light

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY, NIGHT = Conditions(12, 120.0, 30.0, coloured=True), Conditions(2, 20.0, 10.0, coloured=True)


def lesson(
    number: int, boxes: Sequence[tuple[float, float, float, float]] | None = None, light: Conditions = DAY
) -> Lesson:
    """A lesson every ten seconds, with a person who goes along unless told otherwise."""
    left = 6.0 * (number % 10)
    found = [(left, 8.0, left + 8, 24.0)] if boxes is None else list(boxes)
    picture = np.full((48, 64, 3), 80, np.uint8)
    for x1, y1, x2, y2 in found:
        picture[int(y1) : int(y2), int(x1) : int(x2)] = 200
    return Lesson(
        camera="yard",
        taken_at=NOON + timedelta(seconds=10 * number),
        picture=picture,
        window=Size(640, 480),
        known=Detections.of(found, [0.8] * len(found), ["person"] * len(found), Source.CLOUD, [7] * len(found)),
        ignored=np.array([[1.5, 2, 3, 4]], np.float32),
        teacher="large@2",
        edge="small@1",
        conditions=light,
    )


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.lesson"))


def numbers(store: LessonStore) -> list[int]:
    return [int((one.taken_at - NOON).total_seconds()) // 10 for one in store.read()]


def test_a_lesson_comes_back_as_it_was(tmp_path: Path) -> None:
    store, given_in = LessonStore(tmp_path / "yard"), lesson(3)
    assert store.add(given_in).kept
    [read] = store.read()
    assert (read.camera, read.taken_at, read.window, read.teacher, read.edge, read.conditions) == (
        given_in.camera,
        given_in.taken_at,
        given_in.window,
        given_in.teacher,
        given_in.edge,
        given_in.conditions,
    )
    assert read.picture.shape == given_in.picture.shape
    assert np.abs(read.picture.astype(int) - given_in.picture).mean() < 3
    for name in ("xyxy", "score", "label", "source", "track_id"):
        assert getattr(read.known, name).tolist() == getattr(given_in.known, name).tolist()
    assert read.ignored.tolist() == given_in.ignored.tolist()


def test_lessons_are_read_oldest_first_whatever_the_order_they_came_in(tmp_path: Path) -> None:
    store = LessonStore(tmp_path)
    for number in (5, 1, 3):
        store.add(lesson(number))
    assert numbers(store) == numbers(LessonStore(tmp_path)) == [1, 3, 5]


def test_nothing_is_written_or_read_before_the_first_use(tmp_path: Path) -> None:
    LessonStore(tmp_path / "yard")
    assert list(tmp_path.iterdir()) == []


def test_two_lessons_of_one_moment_are_both_kept(tmp_path: Path) -> None:
    store = LessonStore(tmp_path)
    store.add(lesson(1))
    store.add(replace(lesson(2), taken_at=lesson(1).taken_at))
    assert len(store) == len(files(tmp_path)) == 2


def test_what_is_the_same_is_not_kept_again_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesson_quota, "MANY", 1)
    store = LessonStore(tmp_path)
    store.add(lesson(1))
    made = store.add(replace(lesson(1), taken_at=lesson(1).taken_at + timedelta(seconds=1)))
    assert (made.kept, made.reason) == (False, "the same objects at the same places as 1 s before")
    assert store.counters == {"kept": 1, "too_same": 1}


def test_a_new_start_still_knows_what_was_kept_lately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_quota, "MANY", 1)
    LessonStore(tmp_path).add(lesson(1))
    again = replace(lesson(1), taken_at=lesson(1).taken_at + timedelta(seconds=1))
    assert not LessonStore(tmp_path).add(again).kept


def test_the_budget_is_kept_and_the_day_survives_the_night(tmp_path: Path) -> None:
    size = len(files_after(tmp_path / "one", [lesson(1)])[0].read_bytes())
    store = LessonStore(tmp_path / "many", most_bytes=30 * size)
    for number in range(10):
        store.add(lesson(number))
    for number in range(100, 400):
        store.add(lesson(number, light=NIGHT))
        assert sum(file.stat().st_size for file in files(tmp_path / "many")) <= 30 * size
    kept = numbers(store)
    assert kept[:10] == list(range(10))
    assert len(kept) > 20
    assert store.counters["evicted"] == store.counters["kept"] - len(kept)


def files_after(folder: Path, lessons: Sequence[Lesson]) -> list[Path]:
    store = LessonStore(folder)
    for one in lessons:
        store.add(one)
    return files(folder)


def test_a_budget_without_room_for_one_lesson_keeps_none_and_says_so(tmp_path: Path) -> None:
    made = LessonStore(tmp_path, most_bytes=100).add(lesson(1))
    assert not made.kept
    assert "share" in made.reason
    assert files(tmp_path) == []


@pytest.mark.parametrize("keep", [0, 3, 11, 40, -1])
def test_a_half_written_file_is_skipped_and_counted(tmp_path: Path, keep: int) -> None:
    first, _ = files_after(tmp_path, [lesson(1), lesson(2)])
    first.write_bytes(first.read_bytes()[:keep])
    store = LessonStore(tmp_path)
    assert numbers(store) == [2]
    assert store.counters["damaged"] == 1


def test_a_file_that_is_damaged_later_is_skipped_and_counted(tmp_path: Path) -> None:
    store = LessonStore(tmp_path)
    store.add(lesson(1))
    [file] = files(tmp_path)
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    assert store.read() == []
    assert store.counters["damaged"] == 1


def test_what_was_left_beside_its_place_is_no_lesson(tmp_path: Path) -> None:
    [file] = files_after(tmp_path, [lesson(1)])
    file.with_name("99.lesson.new").write_bytes(file.read_bytes())
    assert len(LessonStore(tmp_path)) == 1


def test_the_index_spares_opening_the_files_and_what_it_lacks_is_read_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [lesson(number) for number in range(SAVE_EVERY + 3)]
    files_after(tmp_path, many)
    assert (tmp_path / INDEX).exists()
    opened: list[str] = []
    read_bytes = Path.read_bytes

    def counted(path: Path) -> bytes:
        opened.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    assert LessonStore(tmp_path).summary().lessons == len(many)
    assert len(opened) == 1 + 3


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x01"])
def test_an_index_that_is_none_is_done_without(tmp_path: Path, data: bytes) -> None:
    files_after(tmp_path, [lesson(1)])
    (tmp_path / INDEX).write_bytes(data)
    assert numbers(LessonStore(tmp_path)) == [1]


def test_a_file_that_is_gone_is_forgotten_though_the_index_names_it(tmp_path: Path) -> None:
    first, _ = files_after(tmp_path, [lesson(1), lesson(2)])
    store = LessonStore(tmp_path)
    store.add(lesson(3))
    store.close()
    first.unlink()
    assert LessonStore(tmp_path).summary().lessons == 2


def test_a_summary_and_an_overview_tell_the_same_of_the_lessons(tmp_path: Path) -> None:
    store = LessonStore(tmp_path)
    for one in (lesson(0), lesson(1), lesson(2, []), lesson(3, light=NIGHT)):
        store.add(one)
    made, overview = store.summary(), store.overview()
    assert overview.summary == made
    assert (made.lessons, made.empty, made.hours, made.span_s) == (4, 1, (2, 12), 30.0)
    assert made.labels["person"].objects == 3
    assert {(c.light, c.content): n for c, n in made.conditions.items()} == {
        (Light.DAY, Content.FEW): 2,
        (Light.DAY, Content.EMPTY): 1,
        (Light.NIGHT, Content.FEW): 1,
    }
    assert overview.since((NOON + timedelta(seconds=10)).timestamp()) == 2


def test_of_many_lessons_those_are_read_that_would_stay(tmp_path: Path) -> None:
    store = LessonStore(tmp_path)
    for number in range(20):
        store.add(lesson(number))
    store.add(lesson(50, light=NIGHT))
    few = store.read(most=6)
    assert len(few) == 6
    assert few[-1].conditions == NIGHT


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7])
def test_as_many_lessons_are_read_as_are_asked_for_however_many_conditions_share_them(
    tmp_path: Path, most: int
) -> None:
    store = LessonStore(tmp_path)
    for number in range(3):
        store.add(lesson(number))
        store.add(lesson(50 + number, light=NIGHT))
        store.add(lesson(100 + 90 * number, boxes=()))
    assert (len(store.read(most)), len(store.summary().conditions)) == (most, 3)


def test_lessons_of_the_site_are_not_read_to_be_sent(tmp_path: Path) -> None:
    store = LessonStore(tmp_path)
    store.add(lesson(1))
    with pytest.raises(PrivacyError, match=r"stay on this machine: set lessons\.privacy"):
        store.read(to_send=True)


def test_what_was_taken_for_the_site_stays_though_later_lessons_may_leave(tmp_path: Path) -> None:
    LessonStore(tmp_path).add(lesson(1))
    store = LessonStore(tmp_path, privacy="cloud")
    store.add(lesson(2))
    assert [one.taken_at for one in store.read(to_send=True)] == [lesson(2).taken_at]
    assert len(store.read()) == 2


def test_a_folder_that_cannot_be_written_costs_the_lesson_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "yard").write_text("no folder")
    store = LessonStore(tmp_path / "yard")
    made = [store.add(lesson(number)) for number in range(3)]
    assert not any(one.kept for one in made)
    assert "cannot be written" in made[0].reason
    assert store.counters["unwritten"] == 3
    assert len(caplog.records) == 1


def test_a_folder_that_cannot_be_listed_is_empty_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refused)
    assert LessonStore(tmp_path).overview().summary.lessons == 0
    assert "cannot be used" in caplog.text


def test_a_store_may_be_read_while_it_is_written(tmp_path: Path) -> None:
    store = LessonStore(tmp_path, most_bytes=20_000)
    writer = threading.Thread(target=lambda: [store.add(lesson(number)) for number in range(100)])
    writer.start()
    while writer.is_alive():
        for reader in (store, LessonStore(tmp_path)):
            read = numbers(reader)
            assert read == sorted(read)
            assert reader.counters["damaged"] == 0
    writer.join()
    assert 0 < len(store) < 100


@given(st.binary(max_size=200))
def test_any_bytes_are_a_lesson_or_an_error_that_says_why(data: bytes) -> None:
    for candidate in (data, b"FVL1" + data):
        with pytest.raises(LessonError, match=r"\w+"):
            decode(candidate)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_file_with_any_bit_turned_is_no_lesson(tmp_path: Path, data: st.DataObject) -> None:
    if not files(tmp_path):
        files_after(tmp_path, [lesson(1)])
    content = bytearray(files(tmp_path)[0].read_bytes())
    at = data.draw(st.integers(0, len(content) * 8 - 1))
    content[at // 8] ^= 1 << at % 8
    with pytest.raises(LessonError):
        header_of(bytes(content))
