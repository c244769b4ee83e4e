"""Where the small model is slower than the whole way to the cloud, the cloud looks first, and frames come back."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from edge_agent.router import Router
from edge_agent.settings import UplinkSettings
from edge_agent.steer import Outlook
from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.route import Route, RouteSettings
from pipeline.policies.steering import SteeringSettings
from pipeline.results import Models, Origin
from pipeline.timing import run_virtual
from pipeline.transport.memory import MemoryHub
from pipeline.wire.messages import Refusal
from tests.support.agents import MODEL, UNSURE_PERSON, Cloud, Deed, Pictures, SmallModel, Stage, camera, labels, stage

SLOW_S = 0.4


def outlook(now_s: float, round_trip_ms: float = 60.0) -> Outlook:
    path = PathEstimate().answered(RoundTrip("mosaic", 5000, 0, round_trip_ms, 1, 20), now_s)
    return Outlook(reachable=True, reason="", round_trip_ms={}, tokens_bytes=None, path=path, fill=None, bucket_s=2.0)


def first_after(router: Router, looks_ms: list[float]) -> Route:
    for number, look_ms in enumerate(looks_ms):
        router.looked(look_ms, number / 5)
    now_s = len(looks_ms) / 5
    return router.first(outlook(now_s), None, 180.0, now_s)


def test_one_slow_look_is_no_slow_model() -> None:
    assert first_after(Router(RouteSettings(), auto=True), [10, 10, 900]) is Route.EDGE
    assert first_after(Router(RouteSettings(), auto=True), [900, 900, 10]) is Route.CLOUD


def test_what_was_long_ago_says_nothing() -> None:
    router = Router(RouteSettings(refresh_s=0.1), auto=True)
    for number in range(3):
        router.looked(900, number / 5)
    assert router.first(outlook(2.0), None, 180.0, 2.0) is Route.EDGE


def test_the_echo_of_a_probe_is_no_reason_to_let_the_cloud_look_first() -> None:
    router, seen = Router(RouteSettings(), auto=True), outlook(0.0)
    for number in range(3):
        router.looked(170, number / 5)
    probed = replace(seen, path=seen.path.probed(20, 0.0, 10.0, 2.0))
    assert router.first(probed, None, 180.0, 2.1) is Route.EDGE


def test_a_camera_that_is_to_keep_to_the_edge_does() -> None:
    assert first_after(Router(RouteSettings(), auto=False), [900, 900, 900]) is Route.EDGE


def test_the_small_model_is_looked_after_now_and_then() -> None:
    router = Router(RouteSettings(refresh_s=2.0), auto=True)
    assert [router.refresh_due(at_s) for at_s in (0.0, 1.9, 2.0, 3.9, 4.1)] == [True, False, True, False, True]


async def played(
    model: SmallModel,
    count: int,
    becomes_quick_at_s: float | None = None,
    deeds: Sequence[Deed] = (Deed(),),
    uplink: UplinkSettings | None = None,
    **changes: Any,
) -> Stage:
    async with stage([Pictures(count)], model=model, cameras=[camera(**changes)], deeds=deeds, uplink=uplink) as made:
        if becomes_quick_at_s is not None:
            asyncio.get_running_loop().call_later(becomes_quick_at_s, setattr, model, "run_s", 0.01)
        made.ends = await made.agent.run(1.0)
        return made


@pytest.mark.parametrize("mode", ["adaptive", "edge_only"])
def test_frames_of_a_slow_small_model_are_answered_by_the_cloud_in_time_where_it_may_be_asked(mode: str) -> None:
    made = run_virtual(played(SmallModel(UNSURE_PERSON, run_s=SLOW_S), 100, mode=mode))
    results = made.results()
    assert all(result.deadline_met for result in results)
    late = results[-50:]
    share = sum(result.origin in (Origin.CLOUD, Origin.FUSED) for result in late) / len(late)
    assert (share > 0.8) == (mode == "adaptive")
    assert mode != "adaptive" or all(labels(result) == ["person"] for result in late)
    assert made.agent.cameras[0].router.routing.route is (Route.CLOUD if mode == "adaptive" else Route.EDGE)


@pytest.mark.parametrize("deed", [Deed(delay_s=0.4), Deed(refused=Refusal.QUEUE_FULL), Deed(delay_s=None)])
def test_a_frame_that_only_the_cloud_was_to_look_at_is_carried_where_it_does_not_answer(deed: Deed) -> None:
    deeds = [Deed(frame_s=0.02)] * 100 + [deed]
    settings = SteeringSettings(agreement=0.5)
    made = run_virtual(played(SmallModel(UNSURE_PERSON, run_s=SLOW_S), 150, deeds=deeds, steering=settings))
    one, results = made.agent.cameras[0], made.results()
    nobody = [result for result in results if result.models == Models(None, None)]
    assert any(result.bytes_up for result in nobody)
    assert {result.origin for result in nobody} == {Origin.CARRIED}
    assert one.board.attainment.hit_edge == sum(r.origin.startswith("edge") for r in results)
    assert one.steer.agreement.audits == 0  # no frame was seen by both
    used = one.board.counters["late_answers_used"]
    assert (used > 0) == (deed.delay_s == 0.4)


def test_a_frame_for_which_no_bytes_are_left_is_looked_at_by_the_small_model_where_that_is_in_time() -> None:
    tight = UplinkSettings(uplink_kbps=20)
    made = run_virtual(played(SmallModel(UNSURE_PERSON, run_s=0.15), 200, uplink=tight, sample_fps=5.0))
    assert made.agent.cameras[0].router.routing.route is Route.CLOUD
    late = [result for result in made.results()[-100:] if result.reason != "not_due"]
    assert Origin.CARRIED not in {result.origin for result in late}
    assert {result.models for result in late} == {Models("small@1", None), Models(None, "nanodet-g@1")}


def test_a_frame_that_is_held_back_from_the_cloud_goes_there_all_the_same_where_the_small_model_is_too_slow() -> None:
    for look_ms, first in ((150, Route.EDGE), (900, Route.CLOUD)):
        router = Router(RouteSettings(), auto=True)
        assert first_after(router, [look_ms] * 3) is Route.CLOUD
        assert router.first(outlook(0.6), None, 180.0, 0.6, held_back=True) is first
        assert router.routing.route is Route.CLOUD


def test_frames_stay_where_the_small_model_is_quick() -> None:
    made = run_virtual(played(SmallModel(UNSURE_PERSON), 50))
    assert made.agent.cameras[0].router.routing.reason == "start"


def test_frames_come_back_when_the_small_model_is_quick_again() -> None:
    made = run_virtual(played(SmallModel(UNSURE_PERSON, run_s=SLOW_S), 300, becomes_quick_at_s=12.0))
    routing = made.agent.cameras[0].router.routing
    assert (routing.route, routing.reason) == (Route.EDGE, "cloud_slower")
    assert 12.0 < routing.since_s < 25.0
    assert all(result.models.edge == "small@1" for result in made.results()[-20:])


def test_frames_come_back_from_a_cloud_that_says_it_would_be_late_when_the_small_model_is_quick_again() -> None:
    def near(hub: MemoryHub) -> Cloud:
        return Cloud(hub, [Deed()], name="near", tier="edge")

    def far(hub: MemoryHub) -> Cloud:
        return Cloud(hub, [Deed()], name="far", run_ms_p95={MODEL: 195.0})

    async def main() -> Stage:
        model, loop = SmallModel(UNSURE_PERSON, run_s=SLOW_S), asyncio.get_running_loop()
        async with stage([Pictures(300)], model=model, cameras=[camera()], deeds=None, others=[near, far]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await asyncio.sleep(8.0)
            assert made.agent.cameras[0].router.routing.route is Route.CLOUD
            await made.others[0].tell(online=False)
            loop.call_later(1.0, setattr, model, "run_s", 0.05)
            made.ends = await running
            return made

    made = run_virtual(main())
    assert not made.others[1].requests
    late = [result for result in made.results()[-100:] if result.reason != "not_due"]
    assert Origin.CARRIED not in {result.origin for result in late}
    assert all(labels(result) == ["person"] for result in late)


def test_a_small_model_that_breaks_while_the_cloud_looks_is_noticed() -> None:
    async def main() -> str:
        model = SmallModel(UNSURE_PERSON, run_s=SLOW_S, fails_at=4)
        async with stage([Pictures(100), Pictures(1)], model=model, cameras=[camera()]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await asyncio.sleep(9.0)
            reason = made.agent.cameras[0].board.reason
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return reason

    assert "the small model broke" in run_virtual(main())
