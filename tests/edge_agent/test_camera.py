"""One camera from source to result, on virtual time."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.settings import UplinkSettings
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.policies.change import ChangeSettings
from pipeline.policies.offload import OffloadSettings
from pipeline.results import CameraState, Origin, Result, decode_result
from pipeline.timing import run_virtual
from pipeline.wire import topics
from pipeline.wire.messages import Refusal
from tests.support.agents import (
    MODEL,
    PERSON_XYXY,
    UNSURE_PERSON,
    Deed,
    Pictures,
    SmallModel,
    Stage,
    camera,
    labels,
    moving_square,
    play,
    stage,
)
from tests.support.detectors import grey_picture

NEVER = Deed(delay_s=None)


def assert_sound(made: Stage, captured: int) -> None:
    """Every frame ended once, in the order of capture, and every answer was in time."""
    counts = made.counts()
    assert counts.invariant_ok
    assert counts.in_flight == 0
    assert counts.captured == captured
    assert sum(counts.finals.values()) + sum(counts.drops.values()) == captured
    seqs = [result.seq for result in made.results()]
    assert seqs == sorted(set(seqs))
    assert len(seqs) == sum(counts.finals.values())
    assert all(result.deadline_met for result in made.results())
    assert max(made.lateness_s(), default=0.0) <= 0.0


deeds = st.builds(
    Deed,
    delay_s=st.one_of(st.none(), st.floats(0.0, 0.6)),
    copies=st.integers(1, 2),
    refused=st.one_of(st.none(), st.none(), st.sampled_from(Refusal)),
    sees=st.booleans(),
)


@settings(max_examples=60)
@given(
    script=st.lists(deeds, min_size=1, max_size=12),
    outages=st.lists(st.tuples(st.floats(0.0, 1.5), st.floats(0.0, 0.8)), max_size=3),
    cuts=st.lists(st.tuples(st.floats(0.0, 1.5), st.sampled_from(["bulk", "control"])), max_size=3),
    run_s=st.floats(0.001, 0.3),
    fps=st.sampled_from([5.0, 10.0, 30.0]),
    in_flight=st.integers(1, 3),
)
def test_every_frame_ends_exactly_once_and_in_time_whatever_the_cloud_and_the_broker_do(
    script: list[Deed],
    outages: list[tuple[float, float]],
    cuts: list[tuple[float, str]],
    run_s: float,
    fps: float,
    in_flight: int,
) -> None:
    async def outage(made: Stage, after_s: float, lasts_s: float) -> None:
        await asyncio.sleep(after_s)
        made.hub.stop()
        await asyncio.sleep(lasts_s)
        made.hub.start()

    async def cut(made: Stage, after_s: float, which: str) -> None:
        await asyncio.sleep(after_s)
        (made.bulk if which == "bulk" else made.control).abort()

    async def main() -> Stage:
        source = Pictures(count=round(1.5 * fps), fps=fps)
        model = SmallModel(UNSURE_PERSON, run_s=run_s)
        uplink = UplinkSettings(in_flight=in_flight)
        async with stage([source], model=model, deeds=script, uplink=uplink) as made, asyncio.TaskGroup() as faults:
            for after_s, lasts_s in outages:
                faults.create_task(outage(made, after_s, lasts_s))
            for after_s, which in cuts:
                faults.create_task(cut(made, after_s, which))
            made.ends = await made.agent.run(0.5)
        return made

    made = run_virtual(main())
    assert_sound(made, captured=round(1.5 * fps))
    assert made.ends["gate"] is not None


@settings(max_examples=30)
@given(script=st.lists(deeds, min_size=1, max_size=8), run_s=st.floats(0.0, 0.5), count=st.integers(1, 25))
def test_a_file_loses_nothing_whatever_the_cloud_does(script: list[Deed], run_s: float, count: int) -> None:
    made = run_virtual(play(Pictures(count, live=False), model=SmallModel(UNSURE_PERSON, run_s=run_s), deeds=script))
    assert made.counts().invariant_ok
    assert made.drops() == {}
    assert [result.seq for result in made.results()] == list(range(count))


@settings(max_examples=30)
@given(after_s=st.floats(0.0, 1.2), script=st.lists(deeds, min_size=1, max_size=4), live=st.booleans())
def test_a_run_that_is_stopped_counts_what_was_under_way(after_s: float, script: list[Deed], live: bool) -> None:
    async def main() -> Stage:
        source = Pictures(20, live=live)
        async with stage([source], model=SmallModel(UNSURE_PERSON, run_s=0.15), deeds=script) as made:
            running = asyncio.create_task(made.agent.run(0.0))
            await asyncio.sleep(after_s)
            made.agent.stop()
            made.ends = await running
        return made

    made = run_virtual(main())
    counts = made.counts()
    assert counts.invariant_ok
    assert counts.in_flight == 0
    assert set(made.drops()) <= {"stopped", "overwritten"}
    assert len(made.results()) == sum(counts.finals.values())


def test_frames_in_flight_are_dropped_as_stopped_when_the_run_is_cancelled() -> None:
    async def main() -> Stage:
        async with stage([Pictures(20)], deeds=[NEVER]) as made:
            running = asyncio.create_task(made.agent.run(0.0))
            await asyncio.sleep(0.15)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        return made

    made = run_virtual(main())
    assert made.counts().invariant_ok
    assert made.drops() == {"stopped": 2}


def test_a_quick_cloud_answers_every_analysed_frame() -> None:
    made = run_virtual(play(Pictures(12)))
    assert_sound(made, captured=12)
    assert set(made.origins()) == {Origin.FUSED}
    assert all(found.source == "cloud" for result in made.results() for found in result.detections)
    assert all(result.models.cloud == "nanodet-g@1" for result in made.results())
    assert all(result.bytes_up > 0 for result in made.results())
    assert made.agent.cameras[0].board.bytes_up == sum(result.bytes_up for result in made.results())


def test_the_network_segment_is_the_round_trip_less_the_workers_own_time() -> None:
    made = run_virtual(play(Pictures(3), deeds=[Deed(delay_s=0.03)]))
    timings = made.result(2).timings_ms
    assert timings.network == pytest.approx(30 - 8, abs=0.1)
    assert (timings.cloud_queue, timings.cloud_infer) == (1.0, 5.0)
    assert timings.total == pytest.approx(10 + 30, abs=0.1)


def test_without_a_worker_the_edge_answers_at_once() -> None:
    made = run_virtual(play(Pictures(8), deeds=None))
    assert_sound(made, captured=8)
    assert set(made.origins()) == {Origin.EDGE}
    assert {result.reason for result in made.results()} == {"no_worker"}
    assert {result.timings_ms.total for result in made.results()} == {10.0}
    assert all(labels(result) == ["person"] for result in made.results())


def test_without_a_broker_the_edge_answers_at_once() -> None:
    made = run_virtual(play(Pictures(8), broker_up=False))
    assert_sound(made, captured=8)
    assert set(made.origins()) == {Origin.EDGE}
    assert {result.reason for result in made.results()} == {"broker_down"}
    assert made.heard == []


def test_a_broker_that_goes_and_comes_back_costs_no_frame_and_the_cloud_answers_again() -> None:
    async def main() -> Stage:
        async with stage([Pictures(60)]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await asyncio.sleep(2.0)
            made.hub.stop()
            await asyncio.sleep(1.0)
            made.hub.start()
            await running
        return made

    made = run_virtual(main())
    assert_sound(made, captured=60)
    assert "broker_down" in {result.reason for result in made.results()[20:31]}
    assert set(made.origins()[-10:]) <= {Origin.FUSED, Origin.CLOUD}
    heard = [message.topic for message in made.heard if message.topic == "foveate/gate/result"]
    assert 40 <= len(heard) < 60  # those of the outage are in the record alone


def test_a_silent_worker_costs_the_deadline_a_few_times_then_the_edge_answers_at_once() -> None:
    made = run_virtual(play(Pictures(20), deeds=[NEVER]))
    assert_sound(made, captured=20)
    assert set(made.origins()) == {Origin.EDGE_TIMEOUT, Origin.EDGE}
    late = [result for result in made.results() if result.origin == Origin.EDGE_TIMEOUT.value]
    assert {result.reason for result in late} == {"cloud_late"}
    assert {result.timings_ms.total for result in late} == {180.0}  # the deadline less the margin
    assert "circuit_open" in {result.reason for result in made.results() if result.origin == Origin.EDGE.value}
    assert all(labels(result) == ["person"] for result in made.results())


def test_a_worker_that_speaks_again_is_asked_again() -> None:
    made = run_virtual(play(Pictures(60), deeds=[NEVER] * 5 + [Deed()]))
    assert_sound(made, captured=60)
    assert set(made.origins()[-20:]) <= {Origin.FUSED, Origin.CLOUD}


def test_a_late_answer_corrects_the_frames_that_follow() -> None:
    late_denial = [Deed(delay_s=0.35, sees=False), NEVER]
    made = run_virtual(play(Pictures(12), deeds=late_denial))
    assert_sound(made, captured=12)
    assert made.result(0).origin == Origin.EDGE_TIMEOUT.value
    assert labels(made.result(0)) == ["person"]  # what was known at the deadline
    assert [labels(result) for result in made.results()[4:8]] == [[]] * 4  # the cloud saw no person there
    assert made.agent.cameras[0].board.counters["late_answers"] == 1


def test_a_duplicate_answer_changes_nothing() -> None:
    once = run_virtual(play(Pictures(10), deeds=[Deed()]))
    twice = run_virtual(play(Pictures(10), deeds=[Deed(copies=3)]))
    assert twice.origins() == once.origins()
    assert [result.detections for result in twice.results()] == [result.detections for result in once.results()]
    assert twice.agent.uplink.counters["unexpected_reply"] == 20


@pytest.mark.parametrize("refusal", [Refusal.QUEUE_FULL, Refusal.INFEASIBLE, Refusal.TOO_LARGE])
def test_a_busy_workers_refusal_makes_the_edges_answer_final_at_once(refusal: Refusal) -> None:
    made = run_virtual(play(Pictures(5), deeds=[Deed(delay_s=0.02, refused=refusal)]))
    assert_sound(made, captured=5)
    assert set(made.origins()) == {Origin.EDGE_SHED}
    totals_ms = {result.reason: result.timings_ms.total for result in made.results()}
    assert totals_ms.pop(refusal.value) == 30.0
    assert totals_ms in ({}, {"busy": 10.0})


def test_a_worker_that_is_stopping_is_no_reason_to_call_the_answer_shed() -> None:
    made = run_virtual(play(Pictures(2), deeds=[Deed(refused=Refusal.STOPPING)]))
    assert made.origins() == [Origin.EDGE, Origin.EDGE]


def test_a_newer_frame_takes_the_place_of_one_that_waits_for_the_uplink() -> None:
    slow = [Deed(delay_s=0.14)]
    made = run_virtual(
        play(
            Pictures(30, fps=30),
            cameras=[camera(sample_fps=30.0)],
            deeds=slow,
            uplink=UplinkSettings(in_flight=1, uplink_kbps=None),
        )
    )
    assert_sound(made, captured=30)
    assert "displaced" in {result.reason for result in made.results() if result.origin == Origin.EDGE_SHED.value}


def test_a_spent_byte_budget_leaves_the_answer_to_the_edge() -> None:
    made = run_virtual(play(Pictures(20), uplink=UplinkSettings(uplink_kbps=8.0, burst_s=0.5)))
    assert_sound(made, captured=20)
    shed = {result.reason for result in made.results() if result.origin == Origin.EDGE_SHED.value}
    assert shed
    assert shed <= {"budget", "price"}
    assert made.agent.cameras[0].board.bytes_up < 8000 / 8 * 2 + 4000


def test_a_round_trip_that_does_not_fit_is_not_tried() -> None:
    made = run_virtual(play(Pictures(10), deeds=[Deed(delay_s=0.165)]))
    assert "infeasible" in {result.reason for result in made.results() if result.origin == Origin.EDGE_SHED.value}


def test_every_so_often_a_whole_frame_looks_for_what_was_missed() -> None:
    offload = OffloadSettings(full_frame_s=0.25, least_gain=0.0, trial_share=0.0)
    made = run_virtual(play(Pictures(12), cameras=[camera(offload=offload)]))
    assert made.cloud is not None
    assert [seq for seq, request in enumerate(made.cloud.requests) if request.kind == "frame"] == [3, 6, 9]
    assert [seq for seq, origin in enumerate(made.origins()) if origin == Origin.CLOUD] == [3, 6, 9]


def test_where_a_whole_frame_never_comes_in_time_it_is_searched_all_the_same_and_nobody_waits() -> None:
    cameras = [camera(offload=OffloadSettings(full_frame_s=0.5, least_gain=0.0, trial_share=0.0))]
    made = run_virtual(play(Pictures(40), deeds=[Deed(frame_s=0.3)], cameras=cameras))
    assert_sound(made, captured=40)
    searched = [result for result in made.results() if result.reason == "search_late"]
    assert searched
    assert {result.origin for result in searched} == {Origin.EDGE.value}
    assert all((result.timings_ms.total or 0.0) < 50 for result in searched)
    assert made.agent.cameras[0].board.counters["late_answers_used"] >= len(searched)


def test_edge_only_never_asks_and_cloud_only_asks_with_whole_frames() -> None:
    alone = run_virtual(play(Pictures(5), cameras=[camera(mode="edge_only")]))
    assert alone.cloud is not None
    assert alone.cloud.requests == []
    assert {(result.origin, result.reason) for result in alone.results()} == {(Origin.EDGE, "edge_only")}
    always = run_virtual(play(Pictures(5), cameras=[camera(mode="cloud_only")]))
    assert always.cloud is not None
    assert {request.kind for request in always.cloud.requests} == {"frame"}
    assert set(always.origins()) == {Origin.CLOUD}


def test_frames_that_are_not_due_are_carried_along_the_tracks() -> None:
    made = run_virtual(play(Pictures(30, fps=30)))
    assert_sound(made, captured=30)
    carried = [result for result in made.results() if result.origin == Origin.CARRIED.value]
    assert 19 <= len(carried) <= 20, "the first is taken wherever it lies between the times that are due"
    assert {result.reason for result in carried} == {"not_due"}
    assert all(result.models.edge is None for result in carried)
    assert all(labels(result) == ["person"] for result in carried)


def test_an_unchanged_picture_is_carried_and_looked_at_again_after_the_gap() -> None:
    still = Pictures(20, paint=lambda _: grey_picture(120, 200, 160))
    made = run_virtual(play(still, cameras=[camera(change_detection="adaptive")]))
    assert_sound(made, captured=20)
    assert [result.seq for result in made.results() if result.origin != Origin.CARRIED.value] == [0, 10]
    assert {result.reason for result in made.results() if result.origin == Origin.CARRIED.value} == {"unchanged"}


def test_a_busy_small_model_has_the_older_frame_carried() -> None:
    made = run_virtual(
        play(
            Pictures(30, fps=30),
            cameras=[camera(sample_fps=30.0)],
            model=SmallModel(UNSURE_PERSON, run_s=0.11),
            deeds=None,
        )
    )
    assert_sound(made, captured=30)
    reasons = {result.reason for result in made.results() if result.origin == Origin.CARRIED.value}
    assert "detector_busy" in reasons
    assert Origin.EDGE in made.origins()


def test_a_small_model_that_is_too_slow_still_leaves_an_answer_by_the_deadline() -> None:
    made = run_virtual(play(Pictures(10), model=SmallModel(UNSURE_PERSON, run_s=0.5)))
    assert_sound(made, captured=10)
    assert set(made.origins()) == {Origin.CARRIED}
    assert "edge_late" in {result.reason for result in made.results()}


def test_a_deadline_that_leaves_the_small_model_no_time_is_told_once_with_the_figures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = run_virtual(
        play(Pictures(60), cameras=[camera(deadline_ms=60.0)], model=SmallModel(UNSURE_PERSON, run_s=0.05), deeds=None)
    )
    assert set(made.origins()) == {Origin.CARRIED}
    told = [record.message for record in caplog.records if "could be analysed" in record.message]
    assert "; ".join(told) == (
        "camera gate: none of the last 20 frames could be analysed in time; its deadline of 60 ms leaves the small"
        " model 40 ms, which takes about 50 ms: allow a longer deadline (deadline_ms)"
    )
    assert "none of the last 60 frames" in made.agent.cameras[0].remark


def test_looks_that_are_in_time_are_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    made = run_virtual(play(Pictures(60), model=SmallModel(UNSURE_PERSON, run_s=0.05), deeds=None))
    assert made.agent.cameras[0].remark == ""
    assert "could be analysed" not in caplog.text


def test_a_file_waits_for_a_slow_cloud_instead_of_doing_without_it() -> None:
    made = run_virtual(play(Pictures(12, live=False), deeds=[Deed(delay_s=0.8)]))
    assert_sound(made, captured=12)
    assert set(made.origins()) <= {Origin.FUSED, Origin.CLOUD}
    assert made.drops() == {}


def test_a_file_is_read_no_faster_than_its_frames_are_answered() -> None:
    async def main() -> list[int]:
        seen = []
        async with stage([Pictures(40, live=False)], deeds=[Deed(delay_s=0.8)]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            while not running.done():
                seen.append(made.counts().in_flight)
                await asyncio.sleep(0.05)
        return seen

    in_flight = run_virtual(main())
    assert max(in_flight) <= 9  # eight under way, and one that waits to be let in
    assert max(in_flight) >= 3


def test_pictures_that_a_live_source_has_overwritten_are_counted() -> None:
    made = run_virtual(play(Pictures(30), image_s=0.25))
    assert_sound(made, captured=30)
    assert made.drops()["overwritten"] >= 15


def test_a_gate_that_is_too_slow_still_leaves_an_answer_by_the_deadline() -> None:
    made = run_virtual(play(Pictures(10, fps=1), image_s=0.4))
    assert_sound(made, captured=10)
    assert {result.reason for result in made.results()} == {"edge_late"}


def test_a_region_outside_the_frame_is_an_invalid_input_with_one_reason_and_no_result() -> None:
    made = run_virtual(play(Pictures(10), cameras=[camera(roi=((500.0, 10.0), (700.0, 10.0), (700.0, 150.0)))]))
    assert made.results() == []
    assert made.drops() == {"unusable": 10}
    assert made.counts().invariant_ok
    states = made.states()
    assert states[-1][0] == CameraState.INVALID_INPUT
    assert "region of interest" in states[-1][1]
    assert "200x160" in states[-1][1]
    ended = made.ends["gate"]
    assert ended is not None
    assert ended.state is CameraState.INVALID_INPUT
    assert [state for state, _ in states] == ["connecting", "live", "invalid_input"]


def test_a_region_that_fits_again_brings_the_camera_back() -> None:
    wide = camera(roi=((250.0, 10.0), (390.0, 10.0), (390.0, 150.0), (250.0, 150.0)))
    source = Pictures(10, paint=lambda seq: grey_picture(100 + seq, 200 if seq < 5 else 400, 160))
    made = run_virtual(play(source, cameras=[wide], model=SmallModel(), deeds=None))
    assert made.drops() == {"unusable": 5}
    assert [result.seq for result in made.results()] == [5, 6, 7, 8, 9]
    assert [state for state, _ in made.states()] == ["connecting", "live", "invalid_input", "live", "finished"]


def test_a_region_cut_by_the_frames_border_is_used_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    beyond = camera(roi=((100.0, 0.0), (900.0, 0.0), (900.0, 160.0), (100.0, 160.0)))
    made = run_virtual(play(Pictures(5), cameras=[beyond], model=SmallModel(("person", 0.9, PERSON_XYXY)), deeds=None))
    assert_sound(made, captured=5)
    assert len([text for text in caplog.messages if "reaches beyond the frame of 200x160" in text]) == 1


def test_boxes_of_a_region_come_in_frame_pixels() -> None:
    region = camera(roi=((50.0, 20.0), (200.0, 20.0), (200.0, 160.0), (50.0, 160.0)))
    made = run_virtual(
        play(Pictures(3), cameras=[region], model=SmallModel(("person", 0.9, (10, 20, 50, 120))), deeds=None)
    )
    assert {found.box for result in made.results() for found in result.detections} == {(60.0, 40.0, 100.0, 140.0)}


@pytest.mark.parametrize("deeds", [None, [Deed()]])
def test_what_lies_under_a_mask_is_not_reported_by_the_edge_or_the_cloud(deeds: list[Deed] | None) -> None:
    masked = camera(masks=(((50.0, 30.0), (110.0, 30.0), (110.0, 150.0), (50.0, 150.0)),), mode="cloud_only")
    made = run_virtual(play(Pictures(6), cameras=[masked], deeds=deeds))
    assert_sound(made, captured=6)
    assert all(result.detections == [] for result in made.results())


@pytest.mark.parametrize("deeds", [None, [Deed()]])
def test_objects_that_were_not_asked_for_are_not_reported(deeds: list[Deed] | None) -> None:
    model = SmallModel(UNSURE_PERSON, ("car", 0.9, (120.0, 60.0, 190.0, 120.0)))
    made = run_virtual(
        play(Pictures(6), cameras=[camera(objects=frozenset({"car"}), mode="cloud_only")], model=model, deeds=deeds)
    )
    assert_sound(made, captured=6)
    assert "person" not in {label for result in made.results() for label in labels(result)}
    assert labels(made.result(0)) == ([] if deeds else ["car"])  # the cloud found a person and no car


def test_a_moving_thing_that_the_small_model_misses_is_shown_to_the_cloud() -> None:
    made = run_virtual(play(Pictures(20, paint=moving_square), model=SmallModel()))
    assert_sound(made, captured=20)
    assert "motion" in {result.reason for result in made.results() if result.origin == Origin.FUSED.value}


def test_each_result_names_its_frame_its_models_and_its_time() -> None:
    made = run_virtual(play(Pictures(3), deeds=None))
    first = made.result(0)
    assert (first.camera, first.seq, first.revision, first.final) == ("gate", 0, 0, True)
    assert (first.frame.width, first.frame.height) == (200, 160)
    assert first.models.edge == "small@1"
    assert first.deadline_ms == 200.0
    assert [result.media_ms for result in made.results()] == [0.0, 100.0, 200.0]
    assert len({result.epoch for result in made.results()}) == 1


class SlowOnce(SmallModel):
    """Takes two seconds for one look, and its time for the others."""

    def __init__(self, slow_look: int) -> None:
        super().__init__(UNSURE_PERSON)
        self._slow_look = slow_look

    @property
    def run_s(self) -> float:
        return 2.0 if self.runs == self._slow_look else 0.01

    @run_s.setter
    def run_s(self, value: float) -> None:
        pass


@pytest.mark.parametrize("slow_look", [0, 10])
def test_one_slow_look_does_not_stop_the_looking(slow_look: int) -> None:
    made = run_virtual(play(Pictures(80), model=SlowOnce(slow_look)))
    assert_sound(made, captured=80)
    assert {result.reason for result in made.results()[-30:]} & {"edge_late"} == set()
    assert made.origins()[-1] in (Origin.FUSED, Origin.CLOUD)


@pytest.mark.parametrize("pictures", [Pictures(60, live=False), Pictures(60, fps=25)], ids=["file", "live"])
def test_the_page_has_a_picture_also_where_frames_overlap(pictures: Pictures) -> None:
    made = run_virtual(play(pictures, cameras=[camera(sample_fps=25.0)], deeds=[Deed(delay_s=0.06)]))
    assert made.agent.cameras[0].board.picture is not None


def test_frames_of_another_size_start_with_new_tracks() -> None:
    def paint(seq: int) -> Image:
        return grey_picture(100 + 40 * (seq % 2), 200, 160) if seq < 6 else grey_picture(100 + 40 * (seq % 2), 100, 80)

    made = run_virtual(play(Pictures(12, paint=paint)))
    assert_sound(made, captured=12)
    small = [result for result in made.results() if result.frame.width == 100]
    assert len(small) == 6
    assert "track" not in {found.source for found in small[0].detections}
    before = {found.track_id for r in made.results() if r.frame.width == 200 for found in r.detections} - {None}
    assert before
    after = {found.track_id for r in small for found in r.detections} - {None}
    assert after
    assert not before & after, "one number for two objects"


def test_what_is_seen_too_late_on_a_frame_of_another_size_is_not_taken_for_a_track() -> None:
    def paint(seq: int) -> Image:
        return grey_picture(100 + 40 * (seq % 2), *((200, 160) if seq < 1 else (100, 80)))

    made = run_virtual(play(Pictures(12, paint=paint), model=SlowOnLargePictures(), deeds=None, wait_for_cloud_s=0.0))
    assert_sound(made, captured=12)
    assert [result.detections for result in made.results()] == [[]] * 12


class SlowOnLargePictures(SmallModel):
    """Sees a person in pictures of the usual size, after a long look, and nothing in small ones."""

    def __init__(self) -> None:
        super().__init__(("person", 0.9, PERSON_XYXY), run_s=0.35)

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        if images[0].shape[0] == 160:
            return super().detect(images, min_score)
        self.run_s = 0.01
        return [Detections.none() for _ in images]


def test_boxes_are_not_moved_along_for_longer_than_a_frame_may_be_away() -> None:
    made = run_virtual(play(Pictures(60), model=SlowAfter(10)))
    assert_sound(made, captured=60)
    assert made.results()[-1].detections == []


class SlowAfter(SmallModel):
    """Works for some looks and then never comes back in time."""

    def __init__(self, looks: int) -> None:
        super().__init__(("person", 0.9, (40.0, 30.0, 80.0, 120.0)))
        self._looks = looks

    @property
    def run_s(self) -> float:
        return 0.01 if self.runs < self._looks else 30.0

    @run_s.setter
    def run_s(self, value: float) -> None:
        pass


# Late answers: what they change, and what is told of it.


def first_results(made: Stage) -> list[Result]:
    return [result for result in made.results() if result.revision == 0]


def test_a_late_answer_has_its_result_published_again_where_that_is_wanted() -> None:
    late_denial = [Deed(delay_s=0.35, sees=False), NEVER]
    made = run_virtual(play(Pictures(12), deeds=late_denial, cameras=[camera(revisions=True)]))
    [revised] = [result for result in made.results() if result.revision]
    [before] = [result for result in first_results(made) if result.seq == revised.seq]
    assert (before.origin, before.final, labels(before)) == ("edge_timeout", False, ["person"])
    assert (revised.revision, revised.origin, revised.final, labels(revised)) == (1, "fused", True, [])
    assert (revised.epoch, revised.seq, revised.captured_at) == (before.epoch, 0, before.captured_at)
    assert revised.deadline_met  # what was promised was kept by the first result
    assert revised.models.cloud == f"{MODEL}@1"
    assert revised.timings_ms.total == pytest.approx(360.0)
    counts = made.counts()
    assert counts.invariant_ok
    assert sum(counts.finals.values()) == counts.captured == 12  # one end for each frame, however often it is told
    told = [decode_result(m.payload) for m in made.heard if m.topic == topics.result("gate")]
    assert [result.revision for result in told if result.seq == 0] == [0, 1]
    counters = made.agent.counters()
    assert (counters["late_answers"], counters["late_answers_used"], counters["revisions"]) == (1, 1, 1)


def test_a_late_answer_that_shows_nothing_else_is_no_revision() -> None:
    seen_at_the_very_place = SmallModel(("person", 0.5, PERSON_XYXY))
    made = run_virtual(
        play(
            Pictures(12),
            model=seen_at_the_very_place,
            deeds=[Deed(delay_s=0.35, sees=True), NEVER],
            cameras=[camera(revisions=True, objects=frozenset({"car"}))],
        )
    )
    assert made.results() == first_results(made)


def test_without_being_asked_for_no_result_is_published_twice_and_each_is_final() -> None:
    made = run_virtual(play(Pictures(12), deeds=[Deed(delay_s=0.35, sees=False), NEVER]))
    assert made.results() == first_results(made)
    assert all(result.final for result in made.results())


def test_an_answer_that_is_over_two_seconds_old_has_no_effect() -> None:
    made = run_virtual(
        play(Pictures(40), deeds=[Deed(delay_s=2.05, sees=False), NEVER], cameras=[camera(revisions=True)])
    )
    assert all(labels(result) == ["person"] for result in made.results())
    counters = made.agent.counters()
    assert (counters["late_answers"], counters["late_answers_used"], counters["late_answers_dropped"]) == (1, 0, 1)


@settings(max_examples=30)
@given(script=st.lists(deeds, min_size=1, max_size=12), fps=st.sampled_from([5.0, 10.0]), in_flight=st.integers(1, 3))
def test_whatever_comes_late_each_frame_ends_once_and_its_revisions_follow_its_result(
    script: list[Deed], fps: float, in_flight: int
) -> None:
    made = run_virtual(
        play(
            Pictures(round(2 * fps), fps=fps),
            deeds=script,
            cameras=[camera(revisions=True)],
            uplink=UplinkSettings(in_flight=in_flight),
        )
    )
    counts, counters = made.counts(), made.agent.counters()
    assert counts.invariant_ok
    assert [result.seq for result in first_results(made)] == list(range(counts.captured))
    newest: dict[int, Result] = {}
    for result in made.results():
        before = newest.get(result.seq)
        assert result.revision == (0 if before is None else before.revision + 1)
        if before is not None:
            assert not before.final
            assert result.final
            assert result.detections != before.detections
        newest[result.seq] = result
        tracks = [found.track_id for found in result.detections if found.track_id is not None]
        assert len(tracks) == len(set(tracks))  # nothing is shown twice
    assert counters["late_answers_used"] + counters["late_answers_dropped"] == counters["late_answers"]
    assert counters["revisions"] == len(made.results()) - counts.captured <= counters["late_answers_used"]


def test_an_answer_that_is_overdue_is_not_waited_for_until_the_deadline() -> None:
    made = run_virtual(play(Pictures(30), deeds=[Deed(delay_s=0.02)] * 20 + [NEVER]))
    assert_sound(made, captured=30)
    overdue = [result for result in made.results() if result.reason == "cloud_overdue"]
    assert overdue
    assert {result.origin for result in overdue} == {"edge_timeout"}
    assert max(result.timings_ms.total or 0.0 for result in overdue) < 100.0  # 180 ms would be the deadline


def test_when_the_way_opens_again_the_newest_frame_is_asked_about_at_once() -> None:
    silent_for_a_while = [NEVER] * 5 + [Deed(delay_s=0.03)]

    async def main() -> tuple[Stage, float]:
        source = Pictures(60, fps=5.0)
        async with stage([source], deeds=silent_for_a_while, cameras=[camera(sample_fps=5.0)]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            while made.agent.uplink.counters["echoes"] == 0:  # noqa: ASYNC110 - on virtual time
                await asyncio.sleep(0.001)
            echoed_s = asyncio.get_running_loop().time() - source.first_s
            assert made.cloud is not None
            await asyncio.sleep(0.002)
            newest = made.cloud.requests[-1].seq
            await running
        return made, echoed_s - newest / 5.0

    made, age_s = run_virtual(main())
    assert_sound(made, captured=60)
    assert made.cloud is not None
    answered_before = [r.seq for r in made.cloud.requests if made.result(r.seq).reason == "circuit_open"]
    assert len(answered_before) == 1  # its result had gone out
    assert 0.0 < age_s <= 0.3
    assert made.agent.counters()["late_answers_used"] == 1


def fidgeting(seq: int) -> Image:
    """Somebody who stands where the small model sees a person, and moves a hand."""
    image = grey_picture(120, 200, 160)
    image[80:86, 77:83] = 220 if seq % 2 else 20
    return image


@pytest.mark.parametrize("learn", [True, False])
def test_the_gate_learns_from_what_the_looks_have_shown(learn: bool) -> None:
    change = ChangeSettings(learn=learn, max_gap_s=60.0)
    watching = camera(change_detection="adaptive", sampling="fixed", change=change)
    made = run_virtual(play(Pictures(40, paint=fidgeting), cameras=[watching]))
    assert_sound(made, captured=40)
    late = {result.reason for result in made.results()[20:] if result.origin == Origin.CARRIED.value}
    assert late == ({"unchanged"} if learn else set())
