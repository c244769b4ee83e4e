"""The ways to the cloud as the page shows them."""

import pytest

from edge_agent.router import Router
from edge_agent.status.ways import path_status, steering_status
from edge_agent.steer import Steer
from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.route import RouteSettings
from pipeline.policies.steering import SteeringSettings


def test_a_path_of_which_nothing_is_known_is_left_out() -> None:
    assert path_status("cloud", PathEstimate(), 1.0) is None


def test_the_four_parts_add_up_to_the_round_trip_and_stay_when_they_have_aged() -> None:
    path = PathEstimate()
    for number in range(50):
        path = path.answered(RoundTrip("mosaic", 5000, 0.0, 80.0, 5.0, 25.0), number / 5)
    shown = path_status("cloud", path, 60.0)
    assert shown is not None
    assert shown.up_ms + shown.queue_ms + shown.cloud_ms + shown.down_ms == pytest.approx(80.0, abs=0.5)
    assert shown.bandwidth_kbit_s == pytest.approx(8000 / path.link.ms_per_kb)
    assert (shown.tier, shown.request_bytes) == ("cloud", 5000.0)
    assert shown.age_s == pytest.approx(50.2)


def test_a_camera_begins_open_and_at_the_edge() -> None:
    shown = steering_status(Steer(SteeringSettings()), Router(RouteSettings(), auto=True))
    assert (shown.mode, shown.price_per_kb, shown.agreement, shown.route) == ("open", 0.0, None, "edge")
