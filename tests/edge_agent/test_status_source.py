"""The agent as the status page sees it."""

import asyncio
from dataclasses import replace

import pytest

from edge_agent.settings import Mode
from edge_agent.status.snapshot import AgentStatus
from edge_agent.status_source import AgentStatusSource
from pipeline.policies.budgets import BudgetSettings, SegmentActions
from pipeline.policies.restraint import Action
from pipeline.policies.tier_cost import Tier
from pipeline.policies.tier_offers import Privacy
from pipeline.timing import LoopClock, run_virtual
from tests.support.agents import UNSURE_PERSON, Cloud, Deed, Pictures, SmallModel, camera, stage


def status_after(modes: list[Mode], deed: Deed) -> AgentStatus:
    async def main() -> AgentStatus:
        cameras = [camera(f"c{number}", mode=mode) for number, mode in enumerate(modes)]
        async with stage([Pictures(10) for _ in modes], cameras=cameras, deeds=[deed]) as made:
            await made.agent.run(1.0)
            made.agent.publisher.counters["backlog"] += 3
            return AgentStatusSource(made.agent, "here:1883", "1", LoopClock()).status()

    return run_virtual(main())


@pytest.mark.parametrize(
    ("modes", "circuit"), [(["edge_only", "edge_only"], "off"), (["edge_only", "adaptive"], "closed")]
)
def test_the_circuit_is_off_only_where_no_camera_ever_asks_the_cloud(modes: list[Mode], circuit: str) -> None:
    assert status_after(modes, Deed()).cloud == circuit


def test_the_counters_of_all_parts_are_told_by_kind() -> None:
    counters = status_after(["adaptive"], Deed(copies=2)).counters
    assert counters["uplink_sent"] == 10
    assert counters["uplink_unexpected_reply"] == 10
    assert counters["publish_backlog"] == 3
    assert counters["record_lost"] == 0
    assert {"ignored_messages", "late_answers", "suspect_rows", "decoder_lines"} <= counters.keys()


def test_targets_and_where_the_pictures_of_each_camera_have_gone_are_told() -> None:
    async def main() -> AgentStatus:
        at_home = camera("ward", privacy=Privacy(frozenset({Tier.DEVICE})))
        masked = camera("gate", privacy=Privacy(masked_only=frozenset({Tier.CLOUD})), masks=(((0, 0), (9, 0), (9, 9)),))
        async with stage([Pictures(10), Pictures(10)], cameras=[masked, at_home]) as made:
            await made.agent.run(1.0)
            return AgentStatusSource(made.agent, "here:1883", "1", LoopClock()).status()

    status = run_virtual(main())
    [target] = status.targets
    gate, ward = (one.tiers for one in status.cameras)
    assert gate is not None
    assert ward is not None
    assert (target.target, target.tier, target.workers, target.closed) == ("cloud", "cloud", 1, "broker_down")
    assert target.asked == target.answered == gate.answers["cloud"] == 10
    assert gate.sent_bytes == {"edge": 0, "cloud": target.bytes_up}
    assert gate.leaving_site_bytes == status.bytes_leaving_site == target.bytes_up > 0
    assert (gate.allowed, gate.masked_only, gate.plan) == (["device", "edge", "cloud"], ["cloud"], ["cloud"])
    assert (ward.allowed, ward.plan, ward.leaving_site_bytes) == (["device"], [], 0)
    assert ward.answers == {"device": 10, "edge": 0, "cloud": 0}


def test_every_queue_is_told_with_its_length_as_measured_and_by_littles_law() -> None:
    queues = {queue.name: queue for queue in status_after(["adaptive"], Deed()).queues}
    assert queues.keys() == {"c0/detect", "uplink"}
    detect = queues["c0/detect"]
    assert detect.arrivals_per_s > 0
    assert detect.expected_length == pytest.approx(detect.mean_length, abs=1e-6)


def test_of_several_targets_each_way_and_each_queue_is_told_and_no_plan_once_nobody_is_there() -> None:
    async def main() -> tuple[AgentStatus, AgentStatus]:
        near = lambda hub: Cloud(hub, [Deed(0.02)], name="e", tier="edge")  # noqa: E731 - used once
        async with stage([Pictures(40)], others=[near]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            source = AgentStatusSource(made.agent, "here:1883", "1", LoopClock())
            await asyncio.sleep(2.0)
            asking = source.status()
            assert made.cloud is not None
            for worker in (made.cloud, *made.others):
                await worker.tell(online=False)
            await asyncio.sleep(1.0)
            alone = source.status()
            await running
        return asking, alone

    asking, alone = run_virtual(main())
    assert {path.tier for path in asking.paths} == {"cloud", "edge"}
    assert {queue.name for queue in asking.queues} == {"gate/detect", "uplink cloud", "uplink edge"}
    plans = [tiers.plan for status in (asking, alone) if (tiers := status.cameras[0].tiers) is not None]
    assert plans == [["edge"], []]


def test_a_camera_without_a_picture_has_none_to_show() -> None:
    async def main() -> None:
        async with stage([Pictures(1)]) as made:
            source = AgentStatusSource(made.agent, "here:1883", "1", LoopClock())
            assert source.picture("gate") is None
            assert source.picture("no such camera") is None
            await made.agent.run(1.0)
            shown = source.picture("gate")
            assert shown is not None
            assert shown[0] == 0
            assert shown[1].startswith(b"\xff\xd8")

    run_virtual(main())


def test_breaches_and_what_is_turned_down_for_them_are_shown_with_the_newest_alert_first() -> None:
    async def main() -> AgentStatus:
        quick = BudgetSettings(least_samples=6, sustained_s=1.0, dwell_s=2.0)
        acting = replace(quick, actions=SegmentActions(edge=(Action.LOWER_SAMPLE_RATE,)))
        cameras = [camera("slow", budget=acting), camera("told", budget=quick)]
        model = SmallModel(UNSURE_PERSON, run_s=0.06)
        async with stage([Pictures(60), Pictures(60)], model=model, cameras=cameras) as made:
            await made.agent.run(1.0)
            return AgentStatusSource(made.agent, "here:1883", "1", LoopClock()).status()

    status = run_virtual(main())
    slow, told = status.cameras
    assert {breach.segment for breach in slow.breaches} == {breach.segment for breach in told.breaches} == {"edge"}
    assert slow.breaches[0].budget_ms == slow.budgets_ms["edge"] == 40.0
    assert slow.steps["lower_sample_rate"] >= 1
    assert slow.turned_down["lower_sample_rate"].endswith("frames per second are analysed")
    assert (told.steps, told.turned_down) == ({}, {})
    assert [alert.at for alert in status.alerts] == sorted((alert.at for alert in status.alerts), reverse=True)
    assert status.segments["edge"].samples == sum(one.segments["edge"].samples for one in status.cameras)


def test_attainment_is_shown_and_a_file_that_is_not_played_in_real_time_has_no_budgets() -> None:
    async def main() -> AgentStatus:
        async with stage([Pictures(5, live=False)]) as made:
            await made.agent.run(1.0)
            return AgentStatusSource(made.agent, "here:1883", "1", LoopClock()).status()

    [shown] = run_virtual(main()).cameras
    assert shown.attainment is not None
    assert (shown.attainment.accepted, shown.attainment.share, shown.attainment.met) == (5, 1.0, True)
    assert shown.attainment.within_ms == shown.deadline_ms == 10_000.0
    assert (shown.budgets_ms, shown.breaches) == ({}, [])


def test_frames_that_the_small_model_had_no_time_for_are_missed_and_those_that_were_not_due_do_not_count() -> None:
    async def main() -> AgentStatus:
        model = SmallModel(UNSURE_PERSON, run_s=0.15)
        slow = camera("slow", mode="edge_only", sample_fps=10.0)
        rare = camera("rare", mode="edge_only", sample_fps=1.0)
        async with stage([Pictures(40), Pictures(40)], model=model, cameras=[slow, rare]) as made:
            await made.agent.run(1.0)
            return AgentStatusSource(made.agent, "here:1883", "1", LoopClock()).status()

    slow, rare = (shown.attainment for shown in run_virtual(main()).cameras)
    assert slow is not None
    assert rare is not None
    assert slow.accepted == 40
    assert 0 < slow.hit_edge < 36
    assert rare.accepted in (4, 5), "one a second in four seconds"


def test_how_crops_are_drawn_is_shown_as_a_breach_leaves_it() -> None:
    async def main() -> list[AgentStatus]:
        async with stage([Pictures(3)], cameras=[camera("gate")]) as made:
            await made.agent.run(1.0)
            source, shown = AgentStatusSource(made.agent, "here:1883", "1", LoopClock()), []
            for factor in (1.0, 0.8, 0.1):
                made.agent.cameras[0].levers.crop_scale_factor = factor
                shown.append(source.status())
            return shown

    crops = [status.cameras[0].crops for status in run_virtual(main())]
    assert crops[0] is not None
    assert (crops[0].padding, crops[0].quality, crops[0].trials) == (0.15, 60, 0)
    assert [one and round(one.scale, 3) for one in crops] == [0.6, 0.48, 0.3]
