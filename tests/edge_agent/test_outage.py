"""Through an outage of the link: an answer for every frame in time, and the cloud's soon after the link's return."""

from dataclasses import replace

import pytest

from pipeline.network.profiles import OUTAGES, Profile, profile
from pipeline.results import Origin
from pipeline.timing import run_virtual
from tests.support.agents import camera
from tests.support.networks import Run, run_over

SERVICE_S = 0.03
BEGIN_S = OUTAGES[0][0] - 3.0
END_S = OUTAGES[1][1] + 1.0


def outage(seed: int) -> Profile:
    """LTE that fails twice. Without lost segments: waiting for one that is sent again is not what is tested here."""
    network = profile("outage", seed)
    return replace(network, up=replace(network.up, loss=0.0), down=replace(network.down, loss=0.0))


def through(seed: int, phase_s: float, cameras: int = 1) -> Run:
    chosen = [camera(f"c{n}", sample_fps=5.0, deadline_ms=150.0, revisions=True) for n in range(cameras)]
    return run_virtual(
        run_over(outage(seed), seconds=END_S, cameras=chosen, service_s=lambda: SERVICE_S, begin_s=BEGIN_S + phase_s)
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("phase_s", [0.0, 0.07, 0.14])
def test_every_frame_is_answered_in_time_and_the_cloud_is_heard_soon_after_the_links_return(
    seed: int, phase_s: float
) -> None:
    run = through(seed, phase_s)
    counts = run.agent.cameras[0].board.ledger.snapshot()
    first = [result for _, result in run.kept.results if result.revision == 0]
    assert counts.invariant_ok
    assert len(first) == counts.captured == sum(counts.finals.values())
    assert all(result.deadline_met for result in first)
    for _, returns_s in OUTAGES:
        took_s = run.first_fresh_s(returns_s) - returns_s
        assert took_s <= outage(seed).rtt_s + SERVICE_S + 0.2


def test_while_the_link_is_gone_the_edge_answers_at_once_and_nothing_piles_up() -> None:
    run = through(seed=0, phase_s=0.0)
    gone_s, returns_s = OUTAGES[0]
    during = [r for at_s, r in run.kept.results if gone_s + 1.0 < at_s < returns_s and r.origin != Origin.CARRIED.value]
    assert len(during) > 30
    assert {(result.origin, result.reason) for result in during} == {("edge", "circuit_open")}
    assert max(result.timings_ms.total or 0.0 for result in during) < 20.0
    asked = sum(gone_s < result_at_s < returns_s and r.bytes_up > 0 for result_at_s, r in run.kept.results)
    assert asked <= 3 + 2  # to open the circuit, and what was in flight beside


def test_the_first_frame_that_is_asked_about_after_the_return_is_a_young_one_whose_result_is_then_revised() -> None:
    run = through(seed=1, phase_s=0.05)
    returns_s = OUTAGES[0][1]
    revised = [(at_s, r) for at_s, r in run.kept.results if r.revision and at_s > returns_s]
    at_s, result = revised[0]
    assert at_s - returns_s <= 0.3
    assert at_s - run.captured_at_s("c0", result.seq) <= 0.3 + 0.2


def test_pictures_that_the_outage_held_back_are_not_worked_on_before_fresh_ones() -> None:
    run = through(seed=0, phase_s=0.0, cameras=4)
    returns_s = OUTAGES[0][1]
    assert run.first_fresh_s(returns_s) - returns_s <= outage(0).rtt_s + SERVICE_S + 0.2
    assert run.agent.counters()["uplink_refused_expired"] >= 1
