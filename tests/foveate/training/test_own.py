from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_agent.lessons.lesson import Lesson
from foveate.training.augment import AugmentSettings
from foveate.training.fit import FitSettings
from foveate.training.order import Order, Progress, Trained
from foveate.training.own import PLAN, WEIGHTS, train
from pipeline.detectors.loading import load_file
from pipeline.errors import ConfigError
from pipeline.metrics.matching import score_frame, total
from tests.support.lessons import lesson, scene

QUICK = FitSettings(
    steps=120, batch=4, rate=8e-3, checks=2, augment=AugmentSettings(least_scale=0.9, most_scale=1.1, shift=0.1)
)


def small(count: int, seed: int = 0) -> list[Lesson]:
    """A scene at half the size."""
    return [
        replace(
            each,
            picture=np.ascontiguousarray(each.picture[::2, ::2]),
            known=each.known.with_boxes(each.known.xyxy / np.float32(2)),
        )
        for each in scene(count, seed)
    ]


def order(folder: Path, **changes: object) -> Order:
    values: dict[str, object] = {
        "way": "own",
        "camera": "yard",
        "labels": ("person",),
        "folder": folder,
        "threads": 1,
        "time_limit_s": 60.0,
    }
    return Order(**(values | changes))  # type: ignore[arg-type]  # a test's own values


def quiet(_: Progress) -> None:
    pass


def f1_on(trained: Trained, lessons: Sequence[Lesson], threshold: float) -> float:
    detector = load_file(trained.file, trained.entry, label_file=None, input_size=trained.input_size, threads=1)
    found = [detector.detect([each.picture], threshold)[0].xyxy for each in lessons]
    return total(score_frame(boxes, each.known.xyxy) for boxes, each in zip(found, lessons, strict=True)).f1


def test_a_student_finds_what_its_lessons_show_in_pictures_it_has_not_seen(tmp_path: Path) -> None:
    said: list[Progress] = []
    lessons = small(100)
    trained = train(lessons, order(tmp_path), said.append, QUICK)
    assert f1_on(trained, small(30, seed=9), 0.4) > 0.9
    assert trained.entry.output.head == "centre"
    assert trained.labels == ("person",)
    assert trained.input_size == (48, 64)
    assert trained.figures["lessons"] == 90
    assert trained.figures["judged"] == 10
    assert trained.figures["f1_judged"] > 0.9
    assert 0 <= trained.figures["ece"] <= 1
    assert [progress.done for progress in said] == sorted(progress.done for progress in said)

    # Another camera's student starts from those weights, and so much better than from nothing.
    few = replace(QUICK, steps=2)
    from_scratch = train(lessons, order(tmp_path / "scratch"), quiet, few)
    carried_on = train(lessons, order(tmp_path / "next", start_from=tmp_path), quiet, few)
    assert f1_on(carried_on, lessons, 0.3) > 0.5 > f1_on(from_scratch, lessons, 0.3)


def test_a_restart_keeps_the_network_that_was_chosen(tmp_path: Path) -> None:
    few = replace(QUICK, steps=2)
    first = train(scene(30), order(tmp_path, most_ms=1000.0), quiet, few)
    chosen = (tmp_path / PLAN).read_bytes()
    assert train(scene(30), order(tmp_path, most_ms=1000.0), quiet, few).entry.sha256 == first.entry.sha256
    assert (tmp_path / PLAN).read_bytes() == chosen
    train(scene(30), order(tmp_path, most_ms=900.0), quiet, few)
    assert (tmp_path / PLAN).read_bytes() != chosen


@pytest.mark.parametrize(
    ("lessons", "labels", "message"),
    [
        (scene(5), ("person",), "too few to train"),
        (scene(40), (), "of 0 classes"),
        (scene(40), ("person", "bicycle"), "show 0 objects of the class 'bicycle'"),
        ([lesson(number) for number in range(40)], ("person",), "show 0 objects of the class 'person'"),
    ],
)
def test_what_cannot_be_learned_is_refused(
    tmp_path: Path, lessons: list[Lesson], labels: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(lessons, order(tmp_path, labels=labels), quiet, QUICK)


def test_weights_to_start_from_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=WEIGHTS):
        train(scene(40), order(tmp_path, start_from=tmp_path / "absent"), quiet, QUICK)


def test_lessons_of_two_sizes_are_learned_together(tmp_path: Path) -> None:
    lessons = scene(30)
    small = [replace(each, picture=np.ascontiguousarray(each.picture[::2, ::2])) for each in lessons[:10]]
    trained = train([*small, *lessons[10:]], order(tmp_path), quiet, replace(QUICK, steps=2))
    assert trained.input_size == (96, 128)
