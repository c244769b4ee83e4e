"""The parts of the rollout figures that need no clip."""

from pathlib import Path

import numpy as np
import pytest

from foveate.bench.canary_files import MortalDisk, PowerCutError
from foveate.bench.canary_gate import Marks, poisoned, scored, seen_wrongly, trials, worse
from foveate.bench.canary_models import GoesBlind, OneScene, as_release, raising, shifted, zeroed
from foveate.bench.canary_runs import requests
from pipeline.detections import Detections
from pipeline.policies.evidence import Evidence, Gate, Looks, RolloutSettings
from tests.support.agents import PERSON_XYXY, SmallModel
from tests.support.detectors import grey_picture

MARKS, SETTINGS = Marks(0.4, 0.5), RolloutSettings()
FRAMES = [
    Detections.of([(10.0 + 5 * n, 20.0, 40.0 + 5 * n, 90.0), (300.0, 20.0, 340.0, 110.0)], [0.8, 0.7], ["person"] * 2)
    for n in range(29)
]


def test_models_that_see_the_same_are_promoted_and_never_withdrawn() -> None:
    same = scored(FRAMES, FRAMES, MARKS, None, 0)
    found = trials(same, same, [10.0, 11.0], 20, SETTINGS)
    assert (found.withdrawn, found.promoted) == (0, 20)


def test_models_with_errors_of_their_own_are_withdrawn_more_rarely_than_a_worse_one() -> None:
    own, fewer = (scored(FRAMES, FRAMES, MARKS, errors, 1) for errors in (seen_wrongly, worse))
    same = scored(FRAMES, FRAMES, MARKS, None, 1)
    assert trials(own, own, [10.0], 20, SETTINGS).withdrawn == 0
    assert trials(fewer, same, [10.0], 20, SETTINGS).withdrawn == 20


def test_a_blind_model_is_caught_by_a_poisoned_teacher() -> None:
    rng = np.random.default_rng(2)
    teacher = [poisoned(one, rng) for one in FRAMES]
    blind, own = (scored(look, teacher, MARKS, None, 3) for look in ([Detections.none()] * len(FRAMES), FRAMES))
    found = trials(blind, own, [10.0], 20, SETTINGS)
    assert found.withdrawn == 20
    assert found.comparisons < 40


def test_one_in_ten_boxes_of_a_poisoned_teacher_is_wrong() -> None:
    many = Detections.of([PERSON_XYXY] * 5000, [0.9] * 5000, ["person"] * 5000)
    bad = poisoned(many, np.random.default_rng(3))
    right = int(((bad.label == "person") & (bad.xyxy[:, 0] == PERSON_XYXY[0])).sum())
    assert 0.88 <= right / 5000 <= 0.92


def test_each_fault_is_the_one_that_it_is_called() -> None:
    small, picture = SmallModel(("person", 0.9, PERSON_XYXY)), grey_picture(100)
    assert not len(zeroed(small).detect([picture], 0.2)[0])
    assert shifted(small).detect([picture], 0.2)[0].label.tolist() == ["car"]
    with pytest.raises(RuntimeError, match="cannot run"):
        raising(small).detect([picture], 0.2)
    blind = GoesBlind(small)
    assert len(blind.detect([picture], 0.2)[0]) == 1
    blind.blind = True
    assert not len(blind.detect([picture], 0.2)[0])
    scene = OneScene(small, height=64)
    assert not len(scene.detect([grey_picture(100, height=32)], 0.2)[0])
    assert len(scene.detect([picture], 0.2)[0]) == len(scene.detect([grey_picture(100, height=32)], 0.2)[0]) == 1


def test_a_fault_as_a_release_is_a_cameras_own_model() -> None:
    staged = as_release(zeroed(Labelled()))
    assert staged.title == "own-zeroed@1"
    assert not staged.general


class Labelled(SmallModel):
    """A scripted model with as many classes as the general one has."""

    def __init__(self) -> None:
        super().__init__()
        self.labels = tuple(f"class{number}" for number in range(80))  # type: ignore[assignment] # more than the script's


def test_requests_are_the_frames_of_the_gate_that_gave_the_candidate_up() -> None:
    evidence, before = Evidence(), Evidence()
    for _ in range(60):
        evidence = evidence.looked(Looks(20.0, 10.0, 180.0, candidate_empty=False, current_empty=False), 1.0, SETTINGS)
        if not evidence.against[Gate.SLOW].refutes(SETTINGS.alpha(Gate.SLOW)):
            before = evidence
    assert requests(evidence, SETTINGS, Evidence()) == 60
    assert requests(evidence, SETTINGS, before) == 60 - before.against[Gate.SLOW].samples
    assert requests(Evidence(), SETTINGS, Evidence()) == 1


def test_a_disk_without_power_takes_no_further_step(tmp_path: Path) -> None:
    disk = MortalDisk()
    disk.left = 1
    disk.write(tmp_path / "one", b"whole")
    with pytest.raises(PowerCutError):
        disk.write(tmp_path / "two", b"never")
    assert (tmp_path / "one").read_bytes() == b"whole"
    assert not (tmp_path / "two").exists()
