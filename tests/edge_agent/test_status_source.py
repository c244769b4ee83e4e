"""The agent as the status page sees it."""

import pytest

from edge_agent.settings import Mode
from edge_agent.status.snapshot import AgentStatus
from edge_agent.status_source import AgentStatusSource
from pipeline.timing import LoopClock, run_virtual
from tests.support.agents import Deed, Pictures, camera, stage


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


def test_every_queue_is_told_with_its_length_as_measured_and_by_littles_law() -> None:
    queues = {queue.name: queue for queue in status_after(["adaptive"], Deed()).queues}
    assert queues.keys() == {"c0/detect", "uplink"}
    detect = queues["c0/detect"]
    assert detect.arrivals_per_s > 0
    assert detect.expected_length == pytest.approx(detect.mean_length, abs=1e-6)


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
