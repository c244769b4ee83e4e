from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.training import nanodet_loss, nanodet_samples
from foveate.training.adapt import train
from foveate.training.confidence import Platt, calibration_error, verdicts
from foveate.training.nanodet_calibration import calibrate, calibrated, doubted, fold, towards
from foveate.training.nanodet_judge import detect, published_f1, standing
from foveate.training.nanodet_samples import prepare
from foveate.training.onnx_graph import OnnxNetwork, read_model
from foveate.training.order import Order, Progress, Trained
from foveate.training.tune import TuneSettings
from pipeline.detections import Detections
from pipeline.detectors.loading import load_file
from pipeline.errors import ConfigError, ModelError
from pipeline.timing import ManualClock
from tests.support.lessons import lesson, scene
from tests.support.small_nanodet import small_base, small_nanodet

QUICK = TuneSettings(steps=40, batch=4, rate=0.04, frozen=0.2, pull=0.0, memory=0.9, checks=3)


@dataclass
class Ticking:
    """A clock on which time goes on with every look at it."""

    step_s: float = 0.01
    clock: ManualClock = field(default_factory=ManualClock)

    def now_s(self) -> float:
        self.clock.advance(self.step_s)
        return self.clock.now_s()


def order(folder: Path, /, **changes: object) -> Order:
    asked = Order(way="adapt", camera="yard", labels=("person",), folder=folder / "out", base=small_base(folder))
    return msgspec.structs.replace(asked, threads=1, **changes)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, list[Progress]]:
    """A whole training, and what it said on its way."""
    said: list[Progress] = []
    settings = replace(QUICK, say_s=0.1)
    return train(scene(30), order(tmp_path_factory.mktemp("told")), said.append, settings, Ticking()), said


def test_a_network_learns_what_a_cameras_objects_look_like_and_its_file_finds_them(
    told: tuple[Trained, list[Progress]],
) -> None:
    trained, said = told
    detector = load_file(trained.file, trained.entry, label_file=None, input_size=trained.input_size, threads=1)
    unseen = scene(8, seed=5)
    found = [detector.detect([one.picture], 0.05)[0] for one in unseen]
    prepared = prepare(unseen, ("person",), trained.entry.input, (96, 128))
    assert trained.labels == detector.labels == ("person",)
    assert standing(found, prepared, ("person",)) > 0.6
    assert trained.figures["stands"] >= trained.figures["stands_general"]
    assert 0 <= trained.figures["ece"] <= 1
    assert trained.entry.name == "yard-adapted"
    done = [each.done for each in said]
    assert done == sorted(done)
    assert done[-1] == 1.0


def test_a_training_that_was_cut_off_goes_on_where_it_was_and_ends_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(QUICK, steps=12, checkpoint_s=0.0)
    lessons = scene(30)
    whole = train(lessons, order(tmp_path), lambda _: None, settings, Ticking())
    weights = read_model(whole.file).SerializeToString()
    steps = 0

    def breaks(*given: object) -> torch.Tensor:
        nonlocal steps
        steps += 1
        if steps == 7:
            raise KeyboardInterrupt
        return nanodet_loss.loss(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("foveate.training.tune.loss", breaks)
    again = order(tmp_path, folder=tmp_path / "again")
    with pytest.raises(KeyboardInterrupt):
        train(lessons, again, lambda _: None, settings, Ticking())
    resumed = train(lessons, again, lambda _: None, settings, Ticking())
    assert steps < 15  # of 12 and the one that broke, none was done twice
    assert resumed.figures["steps"] == 12
    assert read_model(resumed.file).SerializeToString() == weights


def test_it_ends_in_time(tmp_path: Path) -> None:
    clock = Ticking(step_s=0.02)
    trained = train(scene(30), order(tmp_path, time_limit_s=1.0), lambda _: None, replace(QUICK, steps=10_000), clock)
    assert 0 < trained.figures["steps"] < 50
    assert clock.clock.now_s() < 1.5


def test_where_tuning_makes_nothing_better_the_general_weights_are_given(tmp_path: Path) -> None:
    spoiled = replace(QUICK, steps=6, rate=1e9, checks=1)
    trained = train(scene(30), order(tmp_path), lambda _: None, spoiled, Ticking())
    assert trained.figures["tuned_share"] == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": None}, "No general model is named"),
        ({"labels": ("person", "forklift")}, "knows no class 'forklift'"),
        ({"labels": ("kite",)}, "with 0 objects of class 'kite' are too few"),
        ({"labels": ()}, "No class is named"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train(scene(30), order(tmp_path, **changes), lambda _: None, QUICK, Ticking())


def test_a_model_of_another_head_is_refused(tmp_path: Path) -> None:
    base = small_base(tmp_path)
    output = msgspec.structs.replace(base.entry.output, head="centre")
    other = msgspec.structs.replace(base, entry=msgspec.structs.replace(base.entry, output=output))
    with pytest.raises(ConfigError, match="output head 'centre'"):
        train(scene(30), order(tmp_path, base=other), lambda _: None, QUICK, Ticking())


def test_a_time_that_no_input_keeps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="allow more time"):
        train(scene(30), order(tmp_path, most_ms=1e-3), lambda _: None, QUICK, Ticking())


def test_only_the_newest_lessons_judge_and_they_are_never_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []

    def spied(lessons, *given):  # type: ignore[no-untyped-def]
        shown.append(len(lessons))
        return nanodet_samples.prepare(lessons, *given)

    monkeypatch.setattr("foveate.training.adapt.prepare", spied)
    trained: Trained = train(scene(40), order(tmp_path), lambda _: None, replace(QUICK, steps=4), Ticking())
    assert trained.figures["lessons"] == 36
    assert trained.figures["judged"] == 4
    assert shown[-2:] == [36, 4]


def test_a_calibration_in_the_weights_moves_every_score_as_said(tmp_path: Path) -> None:
    network = OnnxNetwork(small_nanodet())
    inputs = torch.from_numpy(np.random.default_rng(0).normal(0, 1, (1, 3, 96, 128)).astype(np.float32))
    with torch.inference_mode():
        before = network(inputs)
    fold(network, small_base(tmp_path).entry.output, Platt(1.5, -0.5))
    with torch.inference_mode():
        after = network(inputs)
    expected = Platt(1.5, -0.5)(before["scores"].numpy().astype(np.float64))
    np.testing.assert_allclose(after["scores"].numpy(), expected, atol=1e-5)
    assert torch.equal(after["distances"], before["distances"])


@given(
    scores=st.lists(st.floats(0.06, 0.94), min_size=1, max_size=20),
    slope=st.floats(0.1, 4),
    offset=st.floats(-3, 3),
    share=st.floats(0, 1),
)
def test_a_calibration_that_goes_part_of_the_way_keeps_the_order_of_the_scores(
    scores: list[float], slope: float, offset: float, share: float
) -> None:
    found = Detections.of([(0, 0, 9, 9)] * len(scores), scores, ["person"] * len(scores))
    part = towards(Platt(slope, offset), share)
    after = calibrated([found], part)[0]
    order = np.argsort(found.score, kind="stable")
    assert bool((np.diff(after.score[order]) >= 0).all())
    if share == 0:
        np.testing.assert_allclose(after.score, found.score, atol=1e-6)


def test_scores_that_say_too_little_are_raised_and_the_error_is_lower_afterwards(
    told: tuple[Trained, list[Progress]], tmp_path: Path
) -> None:
    base, (trained, _) = small_base(tmp_path), told
    network = OnnxNetwork(read_model(trained.file))
    learned = prepare(scene(40), ("person",), base.entry.input, (96, 128))
    unseen = prepare(scene(20, seed=5), ("person",), base.entry.input, (96, 128))
    fold(network, trained.entry.output, Platt(0.6, -1.0))
    figures = calibrate(network, trained.entry, learned, unseen, ("person",))
    assert figures["ece"] < figures["ece_before"]
    judged = verdicts(
        detect(network, trained.entry, unseen.samples.pictures, ("person",)), unseen.samples.answers, ("person",)
    )
    assert calibration_error(judged) < figures["ece_before"]


def test_doubt_is_the_share_of_the_known_that_the_teacher_was_not_sure_of(tmp_path: Path) -> None:
    contract = small_base(tmp_path).entry.input
    both = Detections.of([(0, 0, 20, 40), (60, 20, 90, 80)], [0.9, 0.45], ["person", "person"])
    lessons = [replace(lesson(0), known=both), replace(lesson(1), known=both.select(both.score > 0.5)), lesson(2)]
    assert doubted(prepare(lessons, ("person",), contract, (96, 128))) == pytest.approx(1 / 3)
    assert doubted(prepare(lessons[2:], ("person",), contract, (96, 128))) == 0.0


def test_standing_asks_for_all_that_is_known_and_for_what_the_teacher_was_sure_of(tmp_path: Path) -> None:
    contract = small_base(tmp_path).entry.input
    two = Detections.of([(0, 0, 20, 40), (60, 20, 90, 80)], [0.9, 0.45], ["person", "person"])
    taught = prepare([replace(lesson(0), known=two)], ("person",), contract, (96, 128))
    as_taught = [two]
    one_only = [two.select(two.score > 0.5)]
    assert published_f1(as_taught, taught, ("person",)) == 1.0
    assert standing(as_taught, taught, ("person",)) == 1.0  # a threshold between the two finds the sure one
    assert published_f1(one_only, taught, ("person",)) == pytest.approx(2 / 3)
