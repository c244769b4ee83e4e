"""Simulated fleets: what must hold whatever is simulated, and what small fleets are known to do."""

from dataclasses import replace
from typing import Any

import pytest

from foveate.simulation.fleet import Fleet, simulate
from foveate.simulation.outcome import Outcome
from foveate.simulation.scene import Scene
from foveate.simulation.workload import Workload
from pipeline.errors import ConfigError
from tests.support.workloads import MOSAIC, product, workload


def run(shown: Workload | None = None, settings: dict[str, object] | None = None, **changes: Any) -> Outcome:
    scene = Scene.of(shown or workload())
    return simulate(replace(Fleet(product(**(settings or {})), (scene,), duration_s=20.0), **changes))


def test_a_camera_alone_has_every_look_answered_and_pays_for_each_part_of_the_way() -> None:
    outcome = run(hop_ms=2.0)
    parts_ms = 2.0 + 10.0 + MOSAIC.encode_ms + 2.0 + MOSAIC.decode_ms + MOSAIC.infer_ms + 2.0
    assert outcome.lambda_edge == 0.0
    assert outcome.hit_ratio == 1.0
    assert outcome.finals == {"fused": 100}
    assert outcome.latency_ms["p50"] == pytest.approx(parts_ms, rel=0.02)


def test_the_same_seed_gives_the_same_outcome_and_another_one_another() -> None:
    first, again, other = (run(cameras=5, network="lte", seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.latency_ms != other.latency_ms


def test_frames_with_nothing_to_look_at_are_answered_by_the_edge_and_cost_no_bytes() -> None:
    outcome = run(workload(places=()))
    assert outcome.finals == {"edge": 100}
    assert outcome.uplink_kbps == 0.0
    assert outcome.latency_ms["p99"] == pytest.approx(12.0, rel=0.02)


def test_a_small_model_that_is_too_busy_leaves_frames_to_the_tracks_and_keeps_the_others_in_time() -> None:
    outcome = run(workload(edge_ms=40.0), cameras=10)
    assert outcome.edge_utilisation == pytest.approx(1.0, abs=0.05)
    assert outcome.finals["carried"] > 0.4 * outcome.kept
    assert (outcome.latency_ms["p99"] or 0.0) <= 180.0


def test_workers_that_are_too_busy_refuse_in_time_and_run_nothing_that_is_hopeless() -> None:
    outcome = run(cameras=20, nodes=5, workers=1)
    assert outcome.finals["fused"] > 200
    assert (outcome.lambda_edge or 0.0) > 0.3  # a third of what is asked is more than the worker has time for
    assert outcome.hopeless_runs == 0
    assert (outcome.latency_ms["p99"] or 0.0) <= 180.0


def test_another_worker_takes_its_part_of_the_load() -> None:
    one, two = (run(cameras=20, nodes=5, workers=workers) for workers in (1, 2))
    assert (two.lambda_edge or 0.0) < (one.lambda_edge or 0.0) - 0.2


def test_the_uplink_budget_is_kept() -> None:
    outcome = run(settings={"uplink__uplink_kbps": 60}, duration_s=60.0)
    assert outcome.uplink_kbps == pytest.approx(60.0, rel=0.1)
    assert 0.5 < (outcome.lambda_edge or 0.0) < 0.9


def test_whole_frames_that_never_come_in_time_are_asked_about_all_the_same_and_nobody_waits_for_them() -> None:
    settings: dict[str, object] = {"cameras__offload__full_frame_s": 2.0, "cameras__deadline_ms": 140.0}
    outcome = run(settings=settings, cameras=6, workers=6, network="lte")
    searches = outcome.reasons["edge"]["search_late"]
    assert searches >= 30
    assert outcome.late_answers >= searches
    assert outcome.hit_ratio == 1.0


def test_through_an_outage_every_frame_is_answered_in_time_and_afterwards_the_cloud_answers_again() -> None:
    during = run(network="outage", duration_s=29.0)
    after = run(network="outage", duration_s=60.0)
    assert during.hit_ratio == after.hit_ratio == 1.0
    assert after.reasons["edge"]["circuit_open"] >= 30
    assert after.finals["fused"] > during.finals["fused"] + 80


def test_every_camera_begins_at_a_place_of_its_own_and_none_is_lost() -> None:
    outcome = run(workload(places=()), cameras=200, nodes=20)
    assert outcome.kept == pytest.approx(200 * 5 * 20, rel=0.01)


def test_a_thousand_cameras_are_no_more_than_their_frames() -> None:
    outcome = run(workload(frames=5, fps=0.1, places=()), cameras=1_000, nodes=20)
    assert outcome.kept == pytest.approx(1_000 * 0.1 * 20, rel=0.1)
    assert outcome.events < 2.5 * outcome.kept + 1_000


@pytest.mark.parametrize("name", ["cameras", "nodes", "workers"])
def test_a_fleet_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"0 {name}"):
        simulate(Fleet(product(), (Scene.of(workload()),), **{name: 0}))  # type: ignore[arg-type] # a count, by its name


def test_a_fleet_without_a_scene_is_refused() -> None:
    with pytest.raises(ConfigError, match="scene"):
        simulate(Fleet(product(), ()))
