"""Which model looks first: the small one at the edge, or, where that is slower than the whole way, the cloud's.

The rule of computation offloading (MAUI, Cuervo et al., MobiSys 2010, and many after it): what offloading gains is
``D_edge - (D_up + D_queue + D_cloud + D_down)``. The factor and the dwell time keep the decision from flapping. Where
there is time for both, one after the other, both look: the small model's answer then stands behind the cloud's.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from pipeline.policies.offload import Kind, OffloadDecision, OffloadView, obstacle


class Route(StrEnum):
    """Who looks at a frame first."""

    EDGE = "edge"  # the small model; the cloud is asked for a second look
    CLOUD = "cloud"  # the larger model; the small one is not asked


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """The other way is taken where it needs less than ``factor`` of this one, and at most once in ``dwell_s``. While
    frames go to the cloud, the small model looks at one every ``refresh_s``, so that what it would take is known, and
    a whole frame goes every ``search_s``: nobody else would find what neither moves nor has a track.
    """

    factor: float = 0.8
    dwell_s: float = 5.0
    refresh_s: float = 2.0
    search_s: float = 2.0


@dataclass(frozen=True, slots=True)
class RouteView:
    """What is known when a frame's turn has come. ``edge_ms`` is what the small model takes, with its queue;
    ``cloud_ms`` the mean of the four parts of the way to the cloud and back, ``cloud_tail_ms`` its tail (None: not
    known, or not lately). ``remaining_ms`` until the frame must be answered.
    """

    now_s: float
    edge_ms: float | None
    cloud_ms: float | None
    cloud_tail_ms: float | None
    remaining_ms: float
    reachable: bool


@dataclass(frozen=True, slots=True)
class Routing:
    """The route of one camera since ``since_s``, and why."""

    route: Route = Route.EDGE
    since_s: float = float("-inf")
    reason: str = "start"

    def step(self, view: RouteView, settings: RouteSettings) -> "Routing":
        """The routing for a frame whose turn has come."""
        route, reason = self._wanted(view, settings)
        if route is self.route:
            return self
        # A way by which no answer would come is left at once; the dwell time is for choosing between two that work.
        if reason not in _NO_WAY and view.now_s - self.since_s < settings.dwell_s:
            return self
        return replace(self, route=route, since_s=view.now_s, reason=reason)

    def _wanted(self, view: RouteView, settings: RouteSettings) -> tuple[Route, str]:
        if not view.reachable:
            return Route.EDGE, "unreachable"
        if view.cloud_ms is None or view.cloud_tail_ms is None:
            return self._untried(view)
        if view.cloud_tail_ms > view.remaining_ms:
            return Route.EDGE, "infeasible"
        if view.edge_ms is None:
            return self.route, self.reason
        both_ms = view.edge_ms + view.cloud_tail_ms
        if view.cloud_ms < settings.factor * view.edge_ms and both_ms > view.remaining_ms:
            return Route.CLOUD, "edge_slower"
        if view.edge_ms < settings.factor * view.cloud_ms:
            return Route.EDGE, "cloud_slower"
        if both_ms <= settings.factor * view.remaining_ms:
            return Route.EDGE, "time_for_both"
        return self.route, self.reason

    def _untried(self, view: RouteView) -> tuple[Route, str]:
        """Where nothing is known of the cloud it is tried only by what the small model cannot answer in time. It may
        never be known: nothing may be sent to a cloud that announces that it would be late.
        """
        if view.edge_ms is None:
            return self.route, self.reason
        return (Route.CLOUD, "edge_too_slow") if view.edge_ms > view.remaining_ms else (Route.EDGE, "cloud_unknown")


_NO_WAY = frozenset({"unreachable", "infeasible"})


def first_look(view: OffloadView, settings: RouteSettings) -> OffloadDecision:
    """What is sent of a frame that the small model has not looked at: its places, which are tracks and motion, or the
    whole of it where there are none or it is time to search. No price is asked: there is no answer to improve on.
    """
    kinds: tuple[Kind, ...] = (
        ("frame", "mosaic") if view.since_full_frame_s >= settings.search_s else ("mosaic", "frame")
    )
    hindrance = ""
    for kind in kinds:
        if kind == "mosaic" and not view.candidates:
            continue
        hindrance = obstacle(view, kind)
        if not hindrance:
            return OffloadDecision(kind, "cloud_first", view.candidates if kind == "mosaic" else ())
    return OffloadDecision("none", hindrance, wanted=True)
