"""Now and then a camera shows places of a whole frame once more, to learn how crops are to be drawn."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from edge_agent.arms import CropArms, configured_arm
from edge_agent.budget_watch import BudgetWatch
from edge_agent.settings import CameraSettings
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey
from pipeline.metrics.matching import Score
from pipeline.policies.crop_arms import CropArm
from pipeline.policies.offload import Candidate, Why
from pipeline.results import Origin
from pipeline.timing import run_virtual
from tests.support.agents import Deed, Pictures, Stage, camera, play, stage
from tests.support.detectors import grey_picture

PERSON = (60.0, 40.0, 100.0, 140.0)
PLACE = Candidate(PERSON, Why.UNCERTAIN, 0.5)
SOME = CropArm(quality=40)


def tries(share: float = 1.0, **changes: Any) -> CameraSettings:
    settings = camera(**changes)
    return replace(settings, offload=replace(settings.offload, trial_share=share, full_frame_s=2.0))


def frame(seq: int = 7) -> Frame:
    return Frame(FrameKey("gate", 1_700_000_000, seq), grey_picture(100, 200, 160), 0.0, None)


def seen(score: float = 0.9) -> Detections:
    return Detections.of([PERSON], [score], ["person"])


def run(share: float = 1.0, deeds: tuple[Deed, ...] = (Deed(),), **changes: Any) -> Stage:
    return run_virtual(play(Pictures(100), cameras=[tries(share, **changes)], deeds=deeds))


def trials(made: Stage) -> list[Any]:
    assert made.cloud is not None
    return [request for request in made.cloud.requests if request.epoch == 0]


def test_after_a_whole_frame_its_places_are_shown_once_more_and_teach() -> None:
    made = run()
    arms = made.agent.cameras[0].arms
    assert len(trials(made)) == arms.trials > 2
    assert {request.kind for request in trials(made)} == {"mosaic"}
    assert len({(request.epoch, request.seq) for request in made.cloud.requests}) == len(made.cloud.requests)  # type: ignore[union-attr]
    assert sum(evidence.looks for evidence in arms.learned.known.values()) == pytest.approx(arms.trials, rel=0.01)


def test_a_trial_changes_no_answer_and_every_byte_of_it_is_counted() -> None:
    with_trials, without = run(), run(share=0.0)
    assert [r.origin for r in with_trials.results()] == [r.origin for r in without.results()]
    assert [r.bytes_up for r in with_trials.results()] == [r.bytes_up for r in without.results()]
    assert with_trials.counts().invariant_ok
    assert with_trials.agent.cameras[0].board.bytes_up > without.agent.cameras[0].board.bytes_up
    assert trials(without) == []


def test_a_trial_that_is_not_answered_harms_nothing() -> None:
    def is_trial(made: Stage) -> int:
        assert made.cloud is not None
        return next(n for n, request in enumerate(made.cloud.requests) if request.epoch == 0)

    first = is_trial(run())
    made = run(deeds=(*[Deed()] * first, Deed(delay_s=None), Deed()))
    assert made.counts().invariant_ok
    assert Origin.EDGE_TIMEOUT not in made.origins()
    assert made.agent.cameras[0].arms.trials == len(trials(made)) - 1


@pytest.mark.parametrize("mode", ["edge_only", "cloud_only"])
def test_only_who_chooses_what_to_send_tries(mode: str) -> None:
    assert trials(run(mode=mode)) == []


@pytest.mark.parametrize(("factor", "lambda_least"), [(0.8, 0.0), (1.0, 0.3)])
def test_nothing_is_tried_while_something_is_turned_down(
    factor: float, lambda_least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leaves_alone(_: BudgetWatch) -> None:
        await asyncio.Event().wait()

    async def restrained() -> Stage:
        async with stage([Pictures(60)], cameras=[tries()]) as made:
            levers = made.agent.cameras[0].levers
            levers.crop_scale_factor, levers.lambda_least = factor, lambda_least
            await made.agent.run(1.0)
        return made

    monkeypatch.setattr(BudgetWatch, "run", leaves_alone)
    made = run_virtual(restrained())
    assert made.cloud is not None
    assert "frame" in {request.kind for request in made.cloud.requests}
    assert trials(made) == []


def test_the_current_arm_draws_and_another_first_arm_begins_anew() -> None:
    settings = tries()
    arms = CropArms(settings)
    assert configured_arm(arms.drawing) == configured_arm(settings)
    arms.learned = replace(arms.learned, current=SOME)
    assert configured_arm(arms.drawing) == SOME
    other = CropArms(replace(settings, images=replace(settings.images, mosaic_quality=80)))
    other.learned = arms.learned
    assert other.learned.current == CropArm(quality=80)


def test_only_the_answer_to_its_own_trial_teaches_and_once() -> None:
    arms, key = CropArms(tries()), frame().key
    arms.asked_whole(frame(), (PLACE,))
    assert arms.seen_whole(FrameKey("gate", 1_700_000_000, 8), seen()) is None
    trial = arms.seen_whole(key, seen())
    assert trial is not None
    assert arms.seen_whole(key, seen()) is None
    arms.shown(trial, 0.5)
    arms.answered(key, seen())
    assert arms.trials == 0
    for _ in range(2):
        arms.answered(trial.key, seen())
    assert arms.trials == 1
    evidence = arms.learned.known[trial.arm]
    assert (evidence.right, evidence.wrong, evidence.missed, evidence.size) == (1, 0, 0, 0.5)


def test_what_was_given_up_teaches_nothing_nor_does_a_frame_without_places() -> None:
    arms = CropArms(tries())
    for give_up_trial in (False, True):
        arms.asked_whole(frame(), (PLACE,))
        trial = arms.seen_whole(frame().key, seen())
        assert trial is not None
        arms.gave_up(trial.key if give_up_trial else frame().key)
        arms.answered(trial.key, seen())
    arms.asked_whole(frame(), ())
    assert arms.seen_whole(frame().key, seen()) is None
    assert arms.trials == 0


def test_a_share_of_the_whole_frames_is_drawn() -> None:
    arms, count = CropArms(tries(0.3)), 0
    for seq in range(500):
        arms.asked_whole(frame(seq), (PLACE,))
        count += arms.seen_whole(frame(seq).key, seen()) is not None
    assert 0.24 < count / 500 < 0.36


def test_a_score_of_a_trial_is_that_of_the_boxes_at_its_places() -> None:
    arms = CropArms(tries())
    arms.asked_whole(frame(), (PLACE,))
    far = Detections.of([PERSON, (150.0, 100.0, 180.0, 150.0)], [0.9, 0.9], ["person", "person"])
    trial = arms.seen_whole(frame().key, far)
    assert trial is not None
    arms.shown(trial, 1.0)
    arms.answered(trial.key, Detections.none())
    evidence = arms.learned.known[trial.arm]
    assert Score(int(evidence.right), int(evidence.wrong), int(evidence.missed)) == Score(0, 0, 1)
