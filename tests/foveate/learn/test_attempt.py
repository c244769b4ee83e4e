"""One attempt at a model, with real models and real lessons; only the training is scripted."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from edge_agent.lessons.store import LessonStore
from foveate.learn.attempt import Attempt
from foveate.learn.folders import TAUGHT_FILE, Taught
from foveate.learn.values import AttemptOrder, GeneralModel, LearnedModel, Outcome, encode
from foveate.training.order import Order, Progress, Say, Trained, Way
from pipeline.errors import ModelError
from tests.support.spotted import fill, models_folder, trained_model


class Trainer:
    """Gives a model that sees or does not, or breaks down, by the way that is asked for."""

    def __init__(self, **sees: bool | None) -> None:
        self._sees = sees
        self.orders: list[Order] = []
        self.newest_seen: list[str] = []

    async def __call__(self, order: Order, lessons: Path, say: Say) -> Trained:
        self.orders.append(order)
        self.newest_seen.append(LessonStore(lessons).read()[-1].taken_at.isoformat())
        say(Progress(doing="learning", done=0.5))
        sees = self._sees[order.way]
        if sees is None:
            raise ModelError("the network fell over.")
        return trained_model(order, seeing=sees)


@pytest.fixture
def blind(tmp_path: Path) -> Path:
    return models_folder(tmp_path / "models", seeing=False)


@pytest.fixture
def order(tmp_path: Path) -> AttemptOrder:
    fill(tmp_path / "lessons")
    return AttemptOrder(
        camera="yard",
        lessons=tmp_path / "lessons",
        folder=tmp_path / "attempt",
        general=GeneralModel(name="general", input_size=(64, 64), models_dir=tmp_path / "models"),
        ways=("own", "adapt"),
        objects=("person",),
    )


async def attempted(order: AttemptOrder, trainer: Trainer) -> tuple[Outcome, Sequence[Progress]]:
    said: list[Progress] = []
    return await Attempt(order, said.append, trainer).go(), said


def tried(outcome: Outcome) -> list[tuple[Way, bool]]:
    return [(one.way, one.accepted) for one in outcome.tried]


@pytest.mark.usefixtures("blind")
async def test_a_model_that_sees_what_the_general_one_does_not_is_accepted(order: AttemptOrder) -> None:
    trainer = Trainer(own=True)
    outcome, said = await attempted(order, trainer)
    assert (tried(outcome), outcome.way) == ([("own", True)], "own")
    assert outcome.model is not None
    assert outcome.model.labels == ("person", "car", "dog")
    figures = outcome.tried[0].figures
    assert figures["f1"] > 0.95
    assert figures["general_f1"] == 0.0
    assert figures["train_steps"] == 3.0
    assert outcome.teacher == "larger@1"
    assert outcome.lessons == 160
    assert outcome.judged >= 40
    assert said[0].doing == "learning"
    # What judges is newer than all that was learned from.
    assert trainer.newest_seen[0] < LessonStore(order.folder / "judged").read()[0].taken_at.isoformat()
    assert trainer.orders[0].base is not None
    assert trainer.orders[0].base.labels == ("person", "car", "dog")


@pytest.mark.usefixtures("blind")
async def test_where_one_way_comes_to_nothing_the_other_is_tried(order: AttemptOrder) -> None:
    outcome, _ = await attempted(order, Trainer(own=None, adapt=True))
    assert tried(outcome) == [("own", False), ("adapt", True)]
    assert outcome.tried[0].reasons == ("the network fell over.",)
    assert outcome.in_words().startswith("accepted (adapt, ")


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize(
    ("taught", "is_started_from"),
    [
        (Taught(camera="yard", to="2026-03-01T09:00:10.000Z"), True),
        (Taught(camera="yard", to="2026-03-02T09:00:00.000Z"), False),
        (Taught(camera="gate", to="2026-03-02T09:00:00.000Z"), True),
        (None, False),
    ],
)
async def test_a_network_never_starts_from_weights_that_know_the_lessons_that_judge(
    order: AttemptOrder, tmp_path: Path, taught: Taught | None, is_started_from: bool
) -> None:
    student = tmp_path / "student"
    student.mkdir()
    if taught is not None:
        (student / TAUGHT_FILE).write_bytes(encode(taught))
    trainer = Trainer(own=True)
    await attempted(msgspec.structs.replace(order, start_from=student, ways=("own",)), trainer)
    assert (trainer.orders[0].start_from == student) == is_started_from


@pytest.mark.usefixtures("blind")
async def test_an_8_bit_build_or_a_current_model_that_does_not_load_costs_no_training(
    order: AttemptOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(model: LearnedModel, _lessons: Path) -> LearnedModel:
        return msgspec.structs.replace(model, file=tmp_path / "none.onnx")

    monkeypatch.setattr("foveate.learn.attempt.eight_bit_twin", broken)
    trained = Trainer(own=True)
    outcome, _ = await attempted(order, trained)
    assert outcome.model is not None
    gone = broken(outcome.model, tmp_path)
    again = msgspec.structs.replace(order, folder=tmp_path / "again", current=gone)
    outcome, said = await attempted(again, trained)
    assert (outcome.accepted, outcome.tried[0].build) == (True, "float")
    assert [one.doing.partition(":")[0] for one in said[-2:]] == [
        "no 8-bit build",
        "judged beside the general model alone",
    ]


async def test_a_model_that_sees_less_than_the_general_one_is_refused_by_every_way(
    order: AttemptOrder, tmp_path: Path
) -> None:
    models_folder(tmp_path / "models", seeing=True)
    outcome, _ = await attempted(order, Trainer(own=False, adapt=False))
    assert tried(outcome) == [("own", False), ("adapt", False)]
    assert outcome.model is None
    assert "its F1 at the agent's threshold is 0.000" in outcome.in_words()


@pytest.mark.usefixtures("blind")
async def test_lessons_that_show_nothing_of_the_cameras_objects_are_not_trained_on(
    order: AttemptOrder, tmp_path: Path
) -> None:
    empty = AttemptOrder(
        camera="yard", lessons=tmp_path / "none", folder=tmp_path / "other", general=order.general, ways=("own",)
    )
    outcome, _ = await attempted(empty, Trainer(own=True))
    assert outcome.in_words() == "no model: its 0 lessons hold nothing to learn from and to be judged by"
