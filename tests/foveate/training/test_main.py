import os
from pathlib import Path

import msgspec
import pytest

from edge_agent.lessons.store import LessonStore
from foveate.training import __main__ as training
from foveate.training.__main__ import NICENESS, lessons_held, main
from foveate.training.order import Order, Progress, Trained
from pipeline.errors import ConfigError
from tests.support.lessons import scene


@pytest.fixture(autouse=True)
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """By how much the priority was lowered; that of the tests stays as it is."""
    by: list[int] = []
    monkeypatch.setattr(os, "nice", by.append)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    return by


def test_the_process_trains_from_a_store_and_its_last_line_is_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lowered: list[int]
) -> None:
    store = LessonStore(tmp_path / "lessons")
    assert sum(store.add(lesson).kept for lesson in scene(40, empty_share=0.0)) > 25
    order = Order(way="own", camera="yard", labels=("person",), folder=tmp_path / "work", threads=1, time_limit_s=1.0)
    (tmp_path / "order.json").write_bytes(msgspec.json.encode(order, enc_hook=str))
    assert main([str(tmp_path / "order.json"), str(tmp_path / "lessons")]) == 0
    *said, last = capsys.readouterr().out.splitlines()
    assert said
    assert all(0 <= msgspec.json.decode(line, type=Progress).done <= 1 for line in said)
    trained = msgspec.json.decode(last, type=Trained, dec_hook=lambda kind, value: kind(value))
    assert trained.file.is_file()
    assert trained.file.is_relative_to(tmp_path / "work")
    assert lowered == [NICENESS]


def test_more_pictures_than_may_be_held_are_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LessonStore(tmp_path)
    for lesson in scene(40, empty_share=0.0):
        store.add(lesson)
    found = store.read()
    monkeypatch.setattr(training, "MOST_LESSON_BYTES", 20 * found[0].picture.nbytes)
    held = lessons_held(LessonStore(tmp_path))
    assert 0 < len(held) <= 20 < len(found)
    assert [lesson.taken_at for lesson in held] == sorted(lesson.taken_at for lesson in held)
    assert lessons_held(LessonStore(tmp_path / "none")) == []


def test_lessons_of_several_conditions_and_damaged_ones_among_them_are_held_all_the_same(tmp_path: Path) -> None:
    store = LessonStore(tmp_path)
    for lesson in scene(40, empty_share=0.5):
        store.add(lesson)
    assert len(store.summary().conditions) > 1
    files = sorted(tmp_path.glob("*.lesson"))
    for file in files[:3]:
        file.write_bytes(file.read_bytes()[:400])
    assert len(lessons_held(LessonStore(tmp_path))) == len(files) - 3


@pytest.mark.parametrize("arguments", [[], ["absent.json", "lessons"]])
def test_a_wrong_call_is_one_sentence_and_the_exit_code_of_wrong_use(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == ConfigError.exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("training: ")
    assert len(said.err.splitlines()) == 1
