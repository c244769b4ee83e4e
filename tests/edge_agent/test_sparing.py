"""A camera spares the cloud what it has said already, and each frame is answered as ever."""

import asyncio
from dataclasses import replace

import cv2
import numpy as np
import pytest

from edge_agent.settings import CameraSettings
from edge_agent.status.reuse import ReuseStatus
from edge_agent.status_source import AgentStatusSource
from foveate.summary import summary
from pipeline.frames import Image
from pipeline.policies.near_duplicate import NearDuplicateSettings
from pipeline.policies.offload import OffloadSettings
from pipeline.results import Origin
from pipeline.timing import LoopClock, run_virtual
from tests.support.agents import HEIGHT, WIDTH, Deed, Pictures, SmallModel, Stage, camera, labels, play, stage

REUSE = NearDuplicateSettings(enabled=True, bypass_share=0.0, ttl_s=10.0)


def another(seq: int) -> Image:
    """A smooth picture that is unlike all others."""
    coarse = np.random.default_rng(seq).integers(0, 256, (7, 9, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC), np.uint8)


def still(_: int) -> Image:
    """The same picture, again and again."""
    return another(1)


def reusing(**changes: object) -> CameraSettings:
    return replace(camera(), reuse=replace(REUSE, **changes))  # type: ignore[arg-type] # fields of the settings


def requests(made: Stage) -> int:
    assert made.cloud is not None
    return len(made.cloud.requests)


def test_a_still_scene_is_asked_about_once_and_its_answer_said_again() -> None:
    made = run_virtual(play(Pictures(12, paint=still), cameras=[reusing()]))
    assert requests(made) == 1
    first, *rest = made.results()
    assert (first.origin, first.reason) == (Origin.FUSED, "uncertain")
    assert {(result.origin, result.reason) for result in rest} == {(Origin.EDGE, "reused")}
    assert all(result.models.cloud is None and result.bytes_up == 0 for result in rest)
    assert all(labels(result) == ["person"] and result.deadline_met for result in rest)
    assert {found.source for result in rest for found in result.detections} == {"track"}
    for result in rest:
        [before], [after] = first.detections, result.detections
        assert (after.track_id, after.score) == (before.track_id, before.score)
        assert after.box == pytest.approx(before.box, abs=0.2)
    assert made.counts().invariant_ok


def test_without_being_told_to_every_frame_is_asked_about() -> None:
    made = run_virtual(play(Pictures(12, paint=still)))
    assert requests(made) == 12


def test_what_the_cloud_has_denied_stays_denied() -> None:
    unsure = SmallModel(("person", 0.45, (60.0, 40.0, 100.0, 140.0)))
    made = run_virtual(play(Pictures(8, paint=still), cameras=[reusing()], deeds=[Deed(sees=False)], model=unsure))
    assert requests(made) < 8
    assert [labels(result) for result in made.results()] == [[]] * 8


def test_a_scene_that_looks_different_is_asked_about() -> None:
    made = run_virtual(play(Pictures(12, paint=another), cameras=[reusing()]))
    assert requests(made) == 12


def test_an_answer_is_said_again_for_as_long_as_it_is_told_to() -> None:
    made = run_virtual(play(Pictures(12, paint=still), cameras=[reusing(ttl_s=0.35)]))
    assert requests(made) == 3
    reasons = [result.reason for result in made.results()]
    assert [seq for seq, reason in enumerate(reasons) if reason != "reused"] == [0, 4, 8]


def test_what_was_drawn_for_an_audit_is_asked_and_counted() -> None:
    made = run_virtual(play(Pictures(12, paint=still), cameras=[reusing(bypass_share=1.0)]))
    assert requests(made) == 12
    assert made.agent.cameras[0].board.reuse.disagreement == 0.0


def test_what_is_asked_to_be_learned_from_is_never_spared() -> None:
    drawn = OffloadSettings(full_frame_s=0.0, least_gain=1.0, audit_share=1.0)
    made = run_virtual(play(Pictures(8, paint=still), cameras=[replace(reusing(), offload=drawn)]))
    assert requests(made) == 8
    assert {result.reason for result in made.results()} == {"audit"}


def test_the_gain_model_has_a_lesson_of_every_question_spared_or_not() -> None:
    spared, asked = (run_virtual(play(Pictures(8, paint=still), cameras=[each])) for each in (reusing(), camera()))
    assert requests(spared) < requests(asked)
    lessons = [made.agent.cameras[0].memory.gain.lessons for made in (spared, asked)]
    assert lessons[0] == lessons[1] == 8


def test_whole_frames_are_searched_all_the_same() -> None:
    settings = replace(reusing(), offload=OffloadSettings(full_frame_s=0.5, least_gain=0.0, trial_share=0.0))
    made = run_virtual(play(Pictures(16, paint=still), cameras=[settings]))
    assert made.cloud is not None
    kinds = [request.kind for request in made.cloud.requests]
    assert kinds.count("frame") >= 2
    assert made.agent.cameras[0].board.reuse.answered == kinds.count("mosaic"), "they are not counted here"
    assert [result.reason for result in made.results()].count("reused") >= 8


def test_when_no_worker_serves_the_model_any_more_nothing_is_said_again() -> None:
    async def main() -> Stage:
        async with stage([Pictures(12, paint=still)], cameras=[reusing()]) as made:
            assert made.cloud is not None
            task = asyncio.create_task(made.agent.run(1.0))
            await asyncio.sleep(0.65)
            await made.cloud.tell(online=False)
            await task
            return made

    made = run_virtual(main())
    reasons = [result.reason for result in made.results()]
    assert "reused" in reasons[:6]
    assert "reused" not in reasons[8:]


def test_page_and_summary_tell_how_often_and_how_fast() -> None:
    async def main() -> tuple[ReuseStatus | None, ReuseStatus | None, dict[str, object]]:
        cameras = [reusing(), camera("plain")]
        async with stage([Pictures(12, paint=still), Pictures(12, paint=still)], cameras=cameras) as made:
            await made.agent.run(1.0)
            status = AgentStatusSource(made.agent, "here:1883", "1", LoopClock()).status()
            told = summary(made.agent.cameras, {}, made.agent.counters())
            return status.cameras[0].reuse, status.cameras[1].reuse, told["cameras"]["gate"]["reuse"]

    on, off, told = run_virtual(main())
    assert off is None
    assert on is not None
    assert (on.spared, on.answered) == (11, 1)
    assert on.hit_ratio == pytest.approx(11 / 12)
    assert on.mean_ms == pytest.approx(30 / 12, abs=0.2), "eleven that took no time, and one of 30 ms"
    assert told == {"spared": 11, "answered": 1, "hit_ratio": 0.9167, "mean_ms": pytest.approx(on.mean_ms, abs=0.01)}
