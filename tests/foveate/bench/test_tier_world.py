"""The simulated tiers queue, refuse, burst and die as they say, and the same for every choice."""

from dataclasses import replace

import pytest

from foveate.bench.tier_world import CLOUD, DEVICE, EDGE, WARM_UP_S, Scene, Server, hops

SCENE = Scene("lte", 1, 40.0)


def test_requests_come_at_their_rate_and_have_the_sizes_of_their_scene() -> None:
    times_s = list(replace(SCENE, per_s=10.0).times_s())
    assert len(times_s) == 400
    assert times_s[0] == WARM_UP_S
    assert times_s[-1] == pytest.approx(WARM_UP_S + 39.9)
    sizes = [SCENE.size_bytes(number) for number in range(500)]
    assert sizes == [SCENE.size_bytes(number) for number in range(500)]
    assert sorted(sizes)[250] == pytest.approx(8_500, rel=0.1)


def test_runs_follow_one_another_and_what_cannot_be_in_time_is_refused_at_once() -> None:
    server = Server(DEVICE, SCENE)
    first, second, third = (server.offer(number, 0.17, 10.0) for number in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.queue_ms == 0.0
    assert second.queue_ms == pytest.approx(first.run_ms)
    assert second.at_s == pytest.approx(10.0 + (first.run_ms + second.run_ms) / 1e3)
    assert third.refused == (first.run_ms + second.run_ms + DEVICE.run_ms > 170)
    late = server.offer(3, 0.05, 10.0)
    assert late is not None
    assert (late.refused, late.at_s) == (True, 10.0)


def test_a_dead_target_says_nothing_and_takes_to_its_grave_what_it_was_at() -> None:
    server = Server(EDGE, replace(SCENE, edge_dies_s=20.0))
    before = server.offer(0, 9.0, 10.0)
    assert before is not None
    assert server.offer(1, 9.0, 19.999) is None
    assert server.offer(2, 9.0, 21.0) is None
    assert not server.alive(20.0)
    assert Server(CLOUD, replace(SCENE, edge_dies_s=20.0)).alive(1e9)


def test_others_burst_on_the_edge_node_and_not_in_the_cloud() -> None:
    def waits_ms(server: Server) -> list[float]:
        return [server.wait_ms(at_s / 10) for at_s in range(400)]

    edge, cloud = waits_ms(Server(EDGE, SCENE)), waits_ms(Server(CLOUD, SCENE))
    busy = sum(wait > 100 for wait in edge) / len(edge)
    assert busy == pytest.approx(EDGE.burst_s / EDGE.period_s, abs=0.15)
    assert max(edge) <= 200  # others are refused, too
    assert sum(wait > 100 for wait in cloud) == 0


def test_the_network_lies_before_the_cloud_alone() -> None:
    arrives_s = {it.target: hops(it, SCENE)[0].transmit(10_000, 1.0) - 1.0 for it in (DEVICE, EDGE, CLOUD)}
    assert arrives_s["device"] == 0.0
    assert arrives_s["edge"] < 0.005 < 0.02 < arrives_s["cloud"]
