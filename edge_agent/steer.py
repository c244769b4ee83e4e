"""What a camera may expect of the cloud, and what it is told to hold to: the models and controllers at work."""

from dataclasses import dataclass

from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.wire.messages import Reply


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a camera may expect of the cloud right now; ``reachable`` False with a reason where it need not ask.

    ``round_trip_ms`` are predicted tails by kind (missing: unknown), ``path`` is the model that they come from.
    """

    reachable: bool
    reason: str
    round_trip_ms: dict[str, float]
    tokens_bytes: float | None
    path: PathEstimate


def round_trip(kind: str, size_bytes: int, ahead_bytes: float, round_trip_ms: float, reply: Reply) -> RoundTrip:
    """A request's round trip, taken apart by what the worker says of itself."""
    cloud_ms = max(0.0, reply.total_ms - reply.queue_ms)
    return RoundTrip(kind, size_bytes, ahead_bytes, round_trip_ms, reply.queue_ms, cloud_ms)
