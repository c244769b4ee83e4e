"""The models of the ways to the cloud, and what each camera holds to, as values for the status page."""

from edge_agent.router import Router
from edge_agent.status.snapshot import PathStatus, SteeringStatus
from edge_agent.steer import Steer
from pipeline.policies.path import PathEstimate


def path_status(tier: str, path: PathEstimate, now_s: float) -> PathStatus | None:
    """The path as it was known when something was last heard of it; None before that."""
    forecast = path.forecast(path.usual_bytes, path.link.at_s)
    if forecast is None:
        return None
    bandwidth_bytes_s = path.bandwidth_bytes_s
    return PathStatus(
        tier=tier,
        bandwidth_kbit_s=None if bandwidth_bytes_s is None else bandwidth_bytes_s * 8 / 1000,
        request_bytes=path.usual_bytes,
        up_ms=forecast.up_ms,
        queue_ms=forecast.queue_ms,
        cloud_ms=forecast.cloud_ms,
        down_ms=forecast.down_ms,
        tail_ms=forecast.tail_ms,
        age_s=max(0.0, now_s - path.link.at_s),
    )


def steering_status(steer: Steer, router: Router) -> SteeringStatus:
    """What a camera holds to."""
    state, routing = steer.state, router.routing
    return SteeringStatus(
        mode=state.mode.value,
        price_per_kb=state.price_per_kb,
        agreement=steer.agreement.f1,
        route=routing.route.value,
        route_reason=routing.reason,
    )
