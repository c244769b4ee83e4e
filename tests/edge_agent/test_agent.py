"""All cameras of an agent together, on virtual time: start, stop, faults, and what the broker is told."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from edge_agent.capture.base import Ended
from edge_agent.capture.settings import CaptureSettings
from edge_agent.settings import CameraSettings, UplinkSettings
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.results import CameraState, Origin
from pipeline.timing import run_virtual
from tests.support.agents import UNSURE_PERSON, Deed, Pictures, SmallModel, Stage, camera, play, stage
from tests.support.detectors import grey_picture


async def until_online(made: Stage) -> None:
    while made.availability() != ["online"]:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.01)


def test_it_says_online_when_it_starts_and_offline_when_its_sources_have_ended() -> None:
    made = run_virtual(play(Pictures(3)))
    assert made.availability() == ["online", "offline"]
    assert [state for state, _ in made.states()] == ["connecting", "live", "finished"]


def test_states_and_availability_are_retained_and_results_are_not() -> None:
    made = run_virtual(play(Pictures(3)))
    retained = {topic for topic, (message, _) in made.hub._retained.items() if message.payload}
    assert retained - {"foveate/v1/worker/w"} == {"foveate/gate/state", "foveate/agent/a1/available"}
    assert "foveate/gate/result" not in retained


def test_a_stop_is_heeded_at_once_also_while_it_waits_for_the_cloud() -> None:
    async def main() -> tuple[float, Stage]:
        async with stage([Pictures(100)], deeds=None) as made:
            running = asyncio.create_task(made.agent.run(wait_for_cloud_s=60.0))
            await until_online(made)
            before_s = asyncio.get_running_loop().time()
            made.agent.stop()
            await running
            return asyncio.get_running_loop().time() - before_s, made

    took_s, made = run_virtual(main())
    assert took_s < 0.5
    assert made.availability() == ["online", "offline"]
    assert made.counts().captured in (0, 1)
    assert made.counts().invariant_ok


def test_cameras_start_as_soon_as_a_worker_is_known() -> None:
    async def main() -> float:
        async with stage([Pictures(3)]) as made:
            await made.agent.run(wait_for_cloud_s=60.0)
        return made.sources[0].first_s

    assert run_virtual(main()) < 0.5


def test_cameras_start_without_a_broker_once_the_wait_is_over() -> None:
    made = run_virtual(play(Pictures(3), broker_up=False, wait_for_cloud_s=2.0))
    assert 2.0 <= made.sources[0].first_s < 2.2
    assert made.origins() == [Origin.EDGE] * 3


def test_one_camera_with_a_bad_region_harms_no_other() -> None:
    bad = camera("bad", roi=((900.0, 0.0), (950.0, 0.0), (950.0, 100.0)))
    made = run_virtual(play(Pictures(10), Pictures(10), cameras=[bad, camera("good")]))
    assert made.results("bad") == []
    assert len(made.results("good")) == 10
    assert all(result.deadline_met for result in made.results("good"))
    assert made.counts(0).invariant_ok
    assert made.counts(1).invariant_ok
    assert [ended and ended.state for ended in made.ends.values()] == [
        CameraState.INVALID_INPUT,
        CameraState.FINISHED,
    ]


def test_a_camera_that_ends_leaves_the_others_running() -> None:
    made = run_virtual(play(Pictures(2), Pictures(30), cameras=[camera("short"), camera("long")]))
    assert (len(made.results("short")), len(made.results("long"))) == (2, 30)


def test_each_camera_has_its_own_places_on_the_uplink() -> None:
    slow = [Deed(delay_s=0.1)]
    one = UplinkSettings(in_flight=1, uplink_kbps=None)
    sources = Pictures(10, fps=5), Pictures(10, fps=5)
    made = run_virtual(play(*sources, cameras=[camera("one"), camera("two")], deeds=slow, uplink=one))
    for name in ("one", "two"):
        assert {Origin.FUSED} == set(made.origins(name))


def tracebacks(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.exc_info is not None for record in caplog.records)


@pytest.mark.parametrize("fails_at", [0, 3])
def test_a_stage_that_raises_on_a_file_ends_that_camera_as_offline(
    fails_at: int, caplog: pytest.LogCaptureFixture
) -> None:
    made = run_virtual(play(Pictures(50), model=SmallModel(UNSURE_PERSON, fails_at=fails_at)))
    fault = "the analysis broke down with RuntimeError: the small model broke"
    assert made.ends == {"gate": Ended(CameraState.OFFLINE, fault)}
    assert made.states()[-1] == ("offline", fault)
    assert made.availability() == ["online", "offline"]
    assert made.counts().in_flight == 0
    assert made.counts().invariant_ok
    assert made.drops() == {"stopped": 1}
    assert tracebacks(caplog) == 1


def endless(name: str) -> CameraSettings:
    return replace(camera(name), capture=CaptureSettings("rtsp://user:pass@camera.test/stream"))


class BreaksOnce(Pictures):
    """A camera without an end, whose first pictures are none."""

    def __init__(self, count: int, fault: str = "") -> None:
        super().__init__(count, paint=self._fail if fault else None)
        self.total_frames, self._fault = None, fault

    def _fail(self, seq: int) -> Image:
        if seq == 3:
            raise OSError(self._fault)
        return grey_picture(100, 200, 160)


def test_a_camera_whose_stage_raises_comes_back_and_the_others_do_not_notice(caplog: pytest.LogCaptureFixture) -> None:
    sources = [BreaksOnce(50, "no user:pass"), Pictures(50), BreaksOnce(20)]
    made = run_virtual(play(*sources, cameras=[endless("bad"), endless("good")]))
    assert len(made.results("good")) == 50
    assert all(result.deadline_met for result in made.results("good"))
    bad = made.results("bad")
    assert len(bad) == 3 + 20
    assert len({(result.epoch, result.seq) for result in bad}) == len(bad)
    states = [state for state, _ in made.states("bad")]
    assert states == ["connecting", "live", "offline", "live", "finished"]
    assert "OSError" in dict(made.states("bad"))["offline"]
    assert "pass" not in dict(made.states("bad"))["offline"]
    assert made.counts(0).invariant_ok
    assert tracebacks(caplog) == 1


def test_a_camera_that_keeps_breaking_is_tried_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[float]:
        sources = [BreaksOnce(50, "no such picture") for _ in range(12)]
        async with stage(sources, cameras=[endless("gate")]) as made:
            await asyncio.sleep(1)
            running = asyncio.create_task(made.agent.run(0.0))
            await asyncio.sleep(120)
            made.agent.stop()
            await running
            assert made.counts().in_flight == 0
        return [source.first_s for source in sources if source.first_s]

    moments = run_virtual(main())
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    for pause, expected in zip(pauses[:5], (1, 2, 4, 8, 16), strict=True):
        assert 0.75 * expected <= pause - 0.3 <= 1.25 * expected + 0.01
    assert max(pauses) <= 31
    assert tracebacks(caplog) == 1


def test_an_answer_from_before_a_fault_changes_no_frame_after_it() -> None:
    late = [Deed(delay_s=1.6)]
    sources = [BreaksOnce(50, "no such picture"), BreaksOnce(20)]
    made = run_virtual(play(*sources, cameras=[endless("gate")], deeds=late))
    assert made.counts().invariant_ok
    assert not any(found.source == "cloud" for result in made.results() for found in result.detections)


def test_a_running_camera_is_offline_after_the_goodbye_and_counts_are_taken_back() -> None:
    async def main() -> Stage:
        async with stage([Pictures(500), Pictures(5)], cameras=[camera("gate"), camera("yard")]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await asyncio.sleep(3.0)
            made.agent.stop()
            await running
            await asyncio.sleep(0.01)
        return made

    made = run_virtual(main())
    assert made.states("gate")[-1] == ("offline", "the agent has stopped")
    assert made.states("yard")[-1][0] == "finished"
    assert not [topic for topic in made.hub._retained if "/count/" in topic]
    counts = [m.payload for m in made.heard if m.topic == "foveate/gate/count/person"]
    assert counts == [b"1", b""]


def test_a_helper_that_raises_ends_the_run_visibly() -> None:
    async def main() -> None:
        async with stage([Pictures(500)]) as made:

            async def break_down() -> None:
                await asyncio.sleep(0.5)
                raise RuntimeError("the record cannot be written")

            made.kept.run = break_down  # type: ignore[method-assign]  # a disk that is full
            await made.agent.run(1.0)

    with pytest.raises(RuntimeError, match="the record cannot be written"):
        run_virtual(main())


def test_states_and_counts_are_told_again_after_the_broker_has_forgotten_them() -> None:
    async def main() -> list[str]:
        async with stage([Pictures(60)]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await asyncio.sleep(2.0)
            made.hub.stop()
            await asyncio.sleep(0.5)
            made.hub.start()
            await asyncio.sleep(1.0)
            retained = sorted(made.hub._retained)
            await running
        return retained

    retained = run_virtual(main())
    assert {"foveate/gate/state", "foveate/agent/a1/available", "foveate/gate/count/person"} <= set(retained)


def test_an_agent_that_is_cut_off_is_reported_offline_by_its_will() -> None:
    async def main() -> list[str]:
        async with stage([Pictures(30)]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await until_online(made)
            made.control.abort()
            await asyncio.sleep(0)
            said = made.availability()
            await running
        return said

    assert run_virtual(main())[:2] == ["online", "offline"]


def test_only_analysed_frames_are_published_unless_all_are_asked_for() -> None:
    quiet = run_virtual(play(Pictures(30, fps=30), cameras=[camera(publish="analysed")]))
    heard = [message for message in quiet.heard if message.topic == "foveate/gate/result"]
    assert len(heard) in {10, 11}, "the first one is analysed wherever it lies"
    assert len(quiet.results()) == 30  # the record has them all


def test_counts_are_published_when_they_change() -> None:
    class Leaving(SmallModel):
        def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
            if self.runs >= 5:
                self.objects = ()
            return super().detect(images, min_score)

    made = run_virtual(play(Pictures(30), model=Leaving(("person", 0.9, (60, 40, 100, 140))), deeds=None))
    counts = [message.payload for message in made.heard if message.topic == "foveate/gate/count/person"]
    assert counts == [b"1", b"0", b""]
