"""Lessons whose objects are bright 8x8 cells, a model that finds exactly those, and one that finds nothing."""

from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np

from edge_agent.lessons.lesson import Conditions, Lesson
from edge_agent.lessons.store import LessonStore
from foveate.training.order import Order, Trained
from pipeline.detections import Detections, Source
from pipeline.geometry import Size
from tests.support.lessons import BEGAN
from tests.support.onnx_models import CELLS, answer, brightness_detector, entry, fake_detector, save

SIDE, CELL = 64, 8
LABELS = ("person", "car", "dog")


def spotted(count: int, seed: int = 0) -> list[Lesson]:
    """Lessons in order, two seconds apart, with one to three bright cells each; those are people."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        picture = np.full((SIDE, SIDE, 3), 20, np.uint8)
        cells = random.permutation(CELLS)[: int(random.integers(1, 4))]
        boxes = [(8 * (c % 8), 8 * (c // 8), 8 * (c % 8) + CELL, 8 * (c // 8) + CELL) for c in cells]
        for x1, y1, x2, y2 in boxes:
            picture[y1:y2, x1:x2] = 255
        known = Detections.of(boxes, [0.9] * len(boxes), ["person"] * len(boxes), Source.CLOUD, list(cells))
        made.append(
            Lesson(
                camera="yard",
                taken_at=BEGAN + timedelta(seconds=2 * number),
                picture=picture,
                window=Size(SIDE, SIDE),
                known=known,
                ignored=np.empty((0, 4), np.float32),
                teacher="larger@1",
                edge="general@1.0.0",
                conditions=Conditions(9, 40.0, 20.0, coloured=True),
            )
        )
    return made


def fill(folder: Path, count: int = 160) -> LessonStore:
    """A store of spotted lessons."""
    store = LessonStore(folder)
    for lesson in spotted(count):
        store.add(lesson)
    store.close()
    return store


def models_folder(folder: Path, *, seeing: bool) -> Path:
    """A models folder whose one model, ``general``, finds all bright cells, or never anything."""
    folder.mkdir(parents=True)
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in LABELS))
    described = msgspec.structs.replace(entry("general"), labels="labels.txt")
    save(folder, described, brightness_detector() if seeing else fake_detector(*answer([])))
    return folder


def trained_model(order: Order, *, seeing: bool) -> Trained:
    """The result of a training: a model that finds all bright cells, or never anything."""
    order.folder.mkdir(parents=True, exist_ok=True)
    described = save(order.folder, entry("trained"), brightness_detector() if seeing else fake_detector(*answer([])))
    return Trained(
        file=order.folder / described.file,
        entry=described,
        labels=LABELS,
        input_size=(SIDE, SIDE),
        figures={"steps": 3.0},
        train_s=1.5,
    )
