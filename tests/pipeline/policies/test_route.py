"""Frames go to whoever answers sooner, without flapping, and never where no answer would come."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.offload import Candidate, OffloadView, Why
from pipeline.policies.route import Route, RouteSettings, RouteView, Routing, first_look

SETTINGS = RouteSettings()
PLACE = Candidate((10.0, 10.0, 40.0, 90.0), Why.MISSED, 0.5)
optional_ms = st.none() | st.floats(0.0, 1000.0)


def view(now_s: float, **changes: float | bool | None) -> RouteView:
    """A frame on a usual machine: a quick small model, a cloud in reach; any field may be changed."""
    fields: dict[str, float | bool | None] = {
        "edge_ms": 20.0,
        "cloud_ms": 100.0,
        "cloud_tail_ms": 130.0,
        "remaining_ms": 180.0,
        "reachable": True,
    }
    return RouteView(now_s, **(fields | changes))  # type: ignore[arg-type] # the fields of RouteView, by name


def after(*views: RouteView) -> Routing:
    routing = Routing()
    for one in views:
        routing = routing.step(one, SETTINGS)
    return routing


def test_a_quick_small_model_keeps_its_frames() -> None:
    assert after(*[view(i / 5) for i in range(100)]) == Routing()


def test_the_cloud_looks_first_where_the_small_model_is_slower_than_the_whole_way() -> None:
    routing = after(view(0.0), view(0.2, edge_ms=400.0))
    assert (routing.route, routing.reason, routing.since_s) == (Route.CLOUD, "edge_slower", 0.2)


@pytest.mark.parametrize(("edge_ms", "route"), [(120.0, Route.EDGE), (124.0, Route.EDGE), (126.0, Route.CLOUD)])
def test_it_must_be_slower_by_the_factor(edge_ms: float, route: Route) -> None:
    assert after(view(0.0, edge_ms=edge_ms)).route is route


def test_both_look_where_there_is_time_for_both() -> None:
    slow = [view(i / 5, edge_ms=400.0) for i in range(50)]
    roomy: dict[str, float | bool | None] = {"edge_ms": 150.0, "cloud_ms": 60.0, "cloud_tail_ms": 90.0}
    assert after(view(0.0, remaining_ms=250.0, **roomy)).route is Route.EDGE
    assert after(*slow, view(10.0, remaining_ms=250.0, **roomy)).route is Route.CLOUD  # clearly, before it changes
    back = after(*slow, view(10.0, remaining_ms=350.0, **roomy))
    assert (back.route, back.reason) == (Route.EDGE, "time_for_both")


def test_a_cloud_that_would_be_late_is_not_asked_first_however_slow_the_small_model_is() -> None:
    assert after(view(0.0, edge_ms=4000.0, cloud_tail_ms=190.0)).route is Route.EDGE


def test_frames_come_back_when_the_small_model_is_quick_again_but_not_before_the_dwell_time() -> None:
    slow = view(0.0, edge_ms=400.0)
    quick = [view((i + 1) / 5) for i in range(30)]
    assert after(slow, *quick[:24]).route is Route.CLOUD
    back = after(slow, *quick)
    assert (back.route, back.reason, back.since_s) == (Route.EDGE, "cloud_slower", 5.0)


@pytest.mark.parametrize("change", [{"reachable": False}, {"cloud_tail_ms": 500.0}])
def test_a_way_by_which_no_answer_would_come_is_left_at_once_and_not_taken_again_before_the_dwell_time(
    change: dict[str, float | bool | None],
) -> None:
    slow = [view(i / 5, edge_ms=400.0) for i in range(50)]
    left = view(10.0, edge_ms=400.0, **change)
    assert after(*slow, left).route is Route.EDGE
    again = [view(10.0 + (i + 1) / 5, edge_ms=400.0) for i in range(25)]
    assert after(*slow, left, *again[:24]).route is Route.EDGE
    assert after(*slow, left, *again).route is Route.CLOUD


def test_an_unknown_cloud_is_tried_by_what_the_small_model_cannot_answer() -> None:
    unknown: dict[str, float | bool | None] = {"cloud_ms": None, "cloud_tail_ms": None}
    assert after(view(0.0, edge_ms=400.0, **unknown)).reason == "edge_too_slow"
    assert after(view(0.0, edge_ms=100.0, **unknown)).route is Route.EDGE
    assert after(view(0.0, edge_ms=None, **unknown)).route is Route.EDGE


def test_frames_come_back_from_a_cloud_that_stays_unknown_when_the_small_model_is_in_time_again() -> None:
    unknown: dict[str, float | bool | None] = {"cloud_ms": None, "cloud_tail_ms": None}
    tried = view(0.0, edge_ms=400.0, **unknown)
    assert after(tried, view(4.9, edge_ms=100.0, **unknown)).route is Route.CLOUD
    back = after(tried, view(5.0, edge_ms=100.0, **unknown))
    assert (back.route, back.reason) == (Route.EDGE, "cloud_unknown")


def test_a_small_model_of_which_nothing_is_known_changes_nothing() -> None:
    assert after(view(0.0, edge_ms=None)).route is Route.EDGE
    assert after(view(0.0, edge_ms=400.0), view(9.0, edge_ms=None)).route is Route.CLOUD


def frame_view(**changes: Any) -> OffloadView:
    fields: dict[str, Any] = {
        "candidates": (PLACE,),
        "remaining_ms": 150.0,
        "round_trip_ms": {"mosaic": 60.0, "frame": 100.0},
        "expected_bytes": {},
        "tokens_bytes": None,
        "since_full_frame_s": 0.4,
        "reachable": True,
    }
    return OffloadView(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({}, "mosaic", "cloud_first"),
        ({"candidates": ()}, "frame", "cloud_first"),
        ({"since_full_frame_s": 2.0}, "frame", "cloud_first"),
        ({"since_full_frame_s": 2.0, "remaining_ms": 80.0}, "mosaic", "cloud_first"),
        ({"price_per_kb": 9.0}, "mosaic", "cloud_first"),
        ({"remaining_ms": 20.0}, "none", "infeasible"),
        ({"reachable": False, "unreachable_reason": "no_worker"}, "none", "no_worker"),
    ],
)
def test_a_first_look_is_at_the_places_or_at_the_whole_frame_as_can_be_had(
    changes: dict[str, Any], kind: str, reason: str
) -> None:
    decision = first_look(frame_view(**changes), SETTINGS)
    assert (decision.kind, decision.reason) == (kind, reason)
    assert decision.places == ((PLACE,) if kind == "mosaic" else ())


@given(st.lists(st.tuples(st.floats(0.01, 2.0), optional_ms, optional_ms, st.booleans()), max_size=100))
def test_the_cloud_is_taken_at_most_once_in_the_dwell_time_and_never_where_it_is_out_of_reach(
    moves: list[tuple[float, float | None, float | None, bool]],
) -> None:
    routing, now_s, states = Routing(), 0.0, [Routing()]
    for gap_s, edge_ms, cloud_ms, reachable in moves:
        now_s += gap_s
        one = view(now_s, edge_ms=edge_ms, cloud_ms=cloud_ms, cloud_tail_ms=cloud_ms, reachable=reachable)
        routing = routing.step(one, SETTINGS)
        states.append(routing)
        assert routing.route is Route.EDGE or (reachable and (cloud_ms is None or cloud_ms <= 180.0))
    taken_s = [b.since_s for a, b in itertools.pairwise(states) if (a.route, b.route) == (Route.EDGE, Route.CLOUD)]
    assert all(b - a >= 5.0 - 1e-9 for a, b in itertools.pairwise(taken_s))
