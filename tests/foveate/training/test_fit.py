import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.training import fit
from foveate.training.dataset import Samples, prepare
from foveate.training.fit import CHECKPOINT, Desk, FitSettings, Fitting, load, rate, save
from foveate.training.network import Student, StudentShape
from foveate.training.order import Progress
from pipeline.timing import ManualClock
from tests.support.lessons import scene

LABELS = ("person",)
SHORT = FitSettings(steps=8, batch=2, checks=2, checkpoint_s=3.0)
LESSONS = scene(24)


class TickingClock(ManualClock):
    """A clock on which every look takes a second."""

    def now_s(self) -> float:
        self.advance(1.0)
        return super().now_s()


def fitting(settings: FitSettings = SHORT, seed: int = 0, judged: Samples | None = None) -> tuple[Fitting, Student]:
    torch.manual_seed(seed)
    student = Student(StudentShape(1, 0.5))
    learned = prepare(LESSONS[:20], LABELS, (48, 64))
    judged = judged or prepare(LESSONS[20:], LABELS, (48, 64))
    return Fitting(student, learned, judged, LABELS, settings, seed), student


def desk(
    folder: Path, about: str = "this", limit_s: float = 1e6, say: Callable[[Progress], None] = lambda _: None
) -> Desk:
    return Desk(folder, about, TickingClock(), limit_s, say)


def weights(student: Student) -> list[float]:
    return [float(value.double().sum()) for value in student.state_dict().values()]


def stop_after(count: int) -> Callable[[Progress], None]:
    said = itertools.count(1)

    def say(_: Progress) -> None:
        if next(said) == count:
            raise KeyboardInterrupt

    return say


def test_an_interrupted_training_ends_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, student = fitting()
    through = whole.run(desk(tmp_path / "a"))
    expected = weights(student)

    first, _ = fitting()
    with pytest.raises(KeyboardInterrupt):
        first.run(desk(tmp_path / "b", say=stop_after(5)))
    second, student = fitting(seed=5)  # another beginning, which the checkpoint replaces
    resumed = second.run(desk(tmp_path / "b"))
    assert resumed.steps == through.steps == 8
    assert weights(student) == pytest.approx(expected, rel=1e-4)
    assert resumed.f1 == pytest.approx(through.f1)


def test_a_checkpoint_of_another_training_is_not_gone_on_with(tmp_path: Path) -> None:
    fitting()[0].run(desk(tmp_path, about="other"))
    again, _ = fitting(replace(SHORT, steps=5))
    assert again.run(desk(tmp_path, about="this")).steps == 5


def test_a_finished_training_gives_its_result_again_without_a_step(tmp_path: Path) -> None:
    once, student = fitting()
    once.run(desk(tmp_path))
    expected = weights(student)
    again, student = fitting(seed=3)
    said: list[Progress] = []
    assert again.run(desk(tmp_path, say=said.append)).steps == 8
    assert said == []
    assert weights(student) == expected


def test_training_ends_when_its_time_is_up_and_says_how_long_it_takes(tmp_path: Path) -> None:
    said: list[Progress] = []
    started, _ = fitting(replace(SHORT, steps=10_000))
    fitted = started.run(desk(tmp_path, limit_s=20.0, say=said.append))
    assert fitted.steps <= 20
    assert [progress.done for progress in said] == sorted(progress.done for progress in said)
    assert all(progress.left_s is not None and progress.left_s <= 20 for progress in said)


def test_training_stops_early_where_it_gets_worse_and_keeps_what_was_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreements = iter([0.5, 0.9, 0.897, 0.7, 0.6, 0.5])
    monkeypatch.setattr(fit, "agreement", lambda *_: next(agreements))
    settings = replace(SHORT, steps=40, checks=10, patience=2)
    started, student = fitting(settings)
    fitted = started.run(desk(tmp_path))
    assert (fitted.steps, fitted.f1) == (30, 0.9)  # five checks from the middle on: two worse ones end it
    best = load(tmp_path / CHECKPOINT)
    assert best is not None
    assert weights(student) == [float(value.double().sum()) for value in best["best"].values()]


def test_a_seed_gives_the_same_student_and_another_seed_another(tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate((1, 1, 2)):
        started, student = fitting(replace(SHORT, steps=3), seed=seed)
        (tmp_path / str(number)).mkdir()
        started.run(desk(tmp_path / str(number)))
        found.append(weights(student))
    assert found[0] == found[1]
    assert found[0] != found[2]


@given(st.floats(0, 1))
def test_the_rate_rises_then_falls_and_stays_within_its_limits(done: float) -> None:
    settings = FitSettings()
    assert settings.last_rate <= rate(done, settings) <= settings.rate
    later = min(1.0, done + 0.01)
    if later <= settings.warm_up:
        assert rate(later, settings) >= rate(done, settings)
    if done >= settings.warm_up:
        assert rate(later, settings) <= rate(done, settings)


@pytest.mark.parametrize("damage", [b"", b"no such thing", None])
def test_a_damaged_or_absent_checkpoint_counts_as_none(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / CHECKPOINT
    if damage is not None:
        path.write_bytes(damage)
    assert load(path) is None


def test_what_is_saved_comes_back_and_nothing_else_stays_behind(tmp_path: Path) -> None:
    path = tmp_path / CHECKPOINT
    save({"weights": torch.arange(3)}, path)
    save({"weights": torch.arange(4)}, path)
    loaded = load(path)
    assert loaded is not None
    assert loaded["weights"].tolist() == [0, 1, 2, 3]
    assert [file.name for file in tmp_path.iterdir()] == [CHECKPOINT]
    np.testing.assert_array_equal(loaded["weights"].numpy(), np.arange(4))
