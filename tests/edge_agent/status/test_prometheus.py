import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from edge_agent.status.prometheus import render_metrics
from edge_agent.status.snapshot import AgentStatus
from tests.support.status_samples import (
    HOSTILE,
    agent,
    camera,
    learning,
    percentiles,
    queue,
    silent_camera,
    target,
    tiers,
    troubled_camera,
    worker,
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(status: AgentStatus) -> Samples:
    """Every sample by name and labels; a second one of the same name and labels fails."""
    found: Samples = {}
    for family in text_string_to_metric_families(render_metrics(status).decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def of(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def named(found: Samples, name: str) -> Samples:
    return {key: value for key, value in found.items() if key[0] == name}


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("foveate_agent_info", {"agent": "edge-7", "version": "0.1.0"}, 1),
        ("foveate_ready", {}, 1),
        ("foveate_broker_connected", {}, 1),
        ("foveate_cloud_circuit", {"state": "closed"}, 1),
        ("foveate_cloud_circuit", {"state": "open"}, 0),
        ("foveate_worker_online", {"worker": "w-1", "tier": "cloud"}, 1),
        ("foveate_worker_queue_length", {"worker": "w-1", "tier": "cloud"}, 4),
        ("foveate_worker_infer_p95_seconds", {"worker": "w-1", "tier": "cloud"}, 0.0448),
        ("foveate_frames_captured_total", {"camera": "plaza"}, 12_345),
        ("foveate_frames_final_total", {"camera": "plaza", "origin": "fused"}, 1502),
        ("foveate_frames_dropped_total", {"camera": "plaza", "reason": "overwritten"}, 13),
        ("foveate_frames_dropped_total", {"camera": "plaza", "reason": "stopped"}, 0),
        ("foveate_frames_in_flight", {"camera": "plaza"}, 3),
        ("foveate_latency_seconds", {"camera": "plaza", "quantile": "0.5"}, 0.0614),
        ("foveate_latency_seconds", {"camera": "plaza", "quantile": "0.99"}, 0.1832),
        ("foveate_segment_latency_seconds", {"camera": "plaza", "segment": "queue", "quantile": "0.99"}, 0.0317),
        ("foveate_deadline_seconds", {"camera": "plaza"}, 0.2),
        ("foveate_deadline_hit_ratio", {"camera": "plaza"}, 0.99964),
        ("foveate_lambda_edge_ratio", {"camera": "plaza"}, 0.714),
        ("foveate_uplink_bytes_per_second", {"camera": "plaza"}, 54_075),
        ("foveate_analysed_frames_per_second", {"camera": "plaza"}, 5.02),
        ("foveate_camera_state", {"camera": "plaza", "state": "live"}, 1),
        ("foveate_camera_state", {"camera": "plaza", "state": "offline"}, 0),
        ("foveate_objects", {"camera": "plaza", "label": "person"}, 7),
        ("foveate_events_total", {"kind": "uplink_missed"}, 17),
        ("foveate_sla_accepted_total", {"camera": "plaza"}, 2402),
        ("foveate_sla_hits_total", {"camera": "plaza", "by": "edge"}, 689),
        ("foveate_sla_hits_total", {"camera": "plaza", "by": "cloud"}, 1706),
        ("foveate_sla_within_seconds", {"camera": "plaza"}, 0.15),
        ("foveate_sla_target_ratio", {"camera": "plaza"}, 0.98),
        ("foveate_sla_met", {"camera": "plaza"}, 1),
        ("foveate_budget_seconds", {"camera": "plaza", "segment": "network"}, 0.09),
        ("foveate_budget_breached", {"camera": "plaza", "segment": "edge"}, 0),
        ("foveate_turned_down_steps", {"camera": "plaza", "action": "raise_lambda"}, 0),
    ],
)
def test_each_figure_of_the_snapshot_is_there_in_base_units(name: str, labels: dict[str, str], value: float) -> None:
    assert of(samples(agent()), name, **labels) == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("foveate_target_open", {"target": "edge@hall", "tier": "edge"}, 1),
        ("foveate_target_open", {"target": "cloud", "tier": "cloud"}, 0),
        ("foveate_target_workers", {"target": "edge@hall", "tier": "edge"}, 2),
        ("foveate_target_in_flight", {"target": "edge@hall", "tier": "edge"}, 1),
        ("foveate_target_round_trip_seconds", {"target": "edge@hall", "tier": "edge"}, 0.0437),
        ("foveate_target_requests_total", {"target": "edge@hall", "tier": "edge", "what": "moved"}, 18),
        ("foveate_target_bytes_total", {"target": "edge@hall", "tier": "edge"}, 14_720_000),
        ("foveate_answers_total", {"camera": "plaza", "tier": "edge"}, 1_517),
        ("foveate_picture_bytes_total", {"camera": "plaza", "tier": "cloud"}, 1_568_400),
        ("foveate_bytes_leaving_site_total", {"camera": "plaza"}, 1_568_400),
    ],
)
def test_targets_and_where_pictures_go_are_told_in_base_units(name: str, labels: dict[str, str], value: float) -> None:
    closed = target("cloud", closed="gone", round_trip_ms=None)
    assert of(samples(agent(targets=[target(), closed], cameras=[camera(tiers=tiers())])), name, **labels) == value


def test_a_target_of_which_nothing_fresh_is_known_has_no_round_trip() -> None:
    assert named(samples(agent(targets=[target(round_trip_ms=None)])), "foveate_target_round_trip_seconds") == {}


def test_the_frames_still_add_up_in_the_metrics() -> None:
    found = samples(agent())
    ended = sum(
        value
        for name in ("foveate_frames_final_total", "foveate_frames_dropped_total", "foveate_frames_in_flight")
        for value in named(found, name).values()
    )
    assert of(found, "foveate_frames_captured_total", camera="plaza") == ended


def test_a_camera_is_in_exactly_one_state_also_in_one_that_is_not_known_here() -> None:
    for state in ("live", "offline", "a_state_of_a_later_version"):
        states = named(samples(agent(cameras=[camera(state=state)])), "foveate_camera_state")
        assert sum(states.values()) == 1
        assert states["foveate_camera_state", frozenset({("camera", "plaza"), ("state", state)})] == 1


def test_a_breached_budget_and_what_is_turned_down_for_it_are_told() -> None:
    found = samples(agent(cameras=[troubled_camera()]))
    breached = named(found, "foveate_budget_breached")
    assert {dict(labels)["segment"]: value for (_, labels), value in breached.items()} == {
        "network": 0, "queue": 0, "edge": 1, "cloud": 0,
    }  # fmt: skip
    assert of(found, "foveate_turned_down_steps", camera="gate", action="lower_sample_rate") == 1
    assert of(found, "foveate_sla_met", camera="gate") == 0


def test_what_is_not_known_is_left_out_and_not_zero() -> None:
    found = samples(agent(cameras=[silent_camera()], workers=[worker(infer_ms_p95=None)]))
    for name in (
        "foveate_latency_seconds",
        "foveate_segment_latency_seconds",
        "foveate_deadline_hit_ratio",
        "foveate_lambda_edge_ratio",
        "foveate_sla_met",
        "foveate_budget_seconds",
        "foveate_turned_down_steps",
        "foveate_worker_infer_p95_seconds",
    ):
        assert named(found, name) == {}
    assert of(found, "foveate_frames_final_total", camera="gate", origin="cloud") == 0


def test_names_are_data_in_the_metrics_too() -> None:
    odd = f'{HOSTILE}\n\\foveate_ready{{}} 0\n"'
    found = samples(agent(cameras=[camera(odd, counts={odd: 2})], workers=[worker(odd)], agent=odd))
    assert of(found, "foveate_objects", camera=odd, label=odd) == 2
    assert of(found, "foveate_ready") == 1


def test_several_cameras_and_workers_have_a_line_each_and_all_faults_show() -> None:
    status = agent(
        cameras=[camera("a"), camera("b", latency=percentiles(5.0, 6.0))],
        workers=[worker("w-1"), worker("w-2", online=False)],
        broker_connected=False,
        cloud="open",
        ready=False,
    )
    found = samples(status)
    assert of(found, "foveate_latency_seconds", camera="b", quantile="0.99") == pytest.approx(0.006)
    assert of(found, "foveate_worker_online", worker="w-2", tier="cloud") == 0
    assert of(found, "foveate_cloud_circuit", state="open") == 1
    assert (of(found, "foveate_broker_connected"), of(found, "foveate_ready")) == (0, 0)
    assert len(named(found, "foveate_frames_captured_total")) == 2
    assert msgspec.json.decode(msgspec.json.encode(status), type=AgentStatus) == status


def test_queues_are_told_with_what_littles_law_needs() -> None:
    found = samples(agent(queues=[queue(), queue("worker w-1", wait_ms=None, expected_length=None)]))
    assert of(found, "foveate_queue_length", queue="uplink") == 2
    assert of(found, "foveate_queue_mean_length", queue="uplink") == 0.6984
    assert of(found, "foveate_queue_arrivals_per_second", queue="uplink") == 11.5
    assert of(found, "foveate_queue_wait_seconds", queue="uplink") == 0.061
    assert named(found, "foveate_queue_wait_seconds").keys() == {
        ("foveate_queue_wait_seconds", frozenset({("queue", "uplink")}))
    }


def test_what_a_camera_learns_is_there_where_it_learns() -> None:
    found = samples(
        agent(cameras=[camera(learning=learning()), silent_camera(learning=learning(progress=None, agreement=None))])
    )
    assert of(found, "foveate_lessons", camera="plaza") == 412
    assert of(found, "foveate_training_progress_ratio", camera="plaza") == 0.25
    assert of(found, "foveate_model_agreement", camera="plaza") == 0.874
    assert len(named(found, "foveate_training_progress_ratio")) == 1
    assert not named(samples(agent()), "foveate_lessons")
