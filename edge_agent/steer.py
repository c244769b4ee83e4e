"""What a camera may expect of the cloud, and what it is told to hold to: the models and controllers at work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_agent.levers import Levers
from edge_agent.settings import UplinkSettings
from pipeline.detections import Detections
from pipeline.metrics.matching import match
from pipeline.policies.agreement import Agreement
from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.steering import Steering, SteeringSettings, SteeringView
from pipeline.policies.tokens import SharedBudget
from pipeline.wire.messages import Reply

_SAME_RATE = 0.05
"""A limit that differs by less than this is the same limit: the estimate of a bandwidth is never quite still."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a camera may expect of the cloud right now; ``reachable`` False with a reason where it need not ask.

    ``round_trip_ms`` are predicted tails by kind (missing: unknown), ``path`` is the model that they come from.
    ``fill`` is how full the camera's bucket of bytes is, as a share (None: no limit), ``bucket_s`` how long it takes.
    """

    reachable: bool
    reason: str
    round_trip_ms: dict[str, float]
    tokens_bytes: float | None
    path: PathEstimate
    fill: float | None
    bucket_s: float
    due_bytes_s: float | None = None
    """What flows into that bucket while all are in use (None: no limit)."""
    mosaic_hindrance: str = ""
    """Why crops are not worth asking about at what that costs, empty where they are."""


def learned(
    path: PathEstimate, sent: tuple[str, int, float], round_trip_ms: float, reply: Reply, now_s: float
) -> PathEstimate:
    """The path after an answer to a request ``sent``: its kind, its bytes, and those that were ahead of it.

    The round trip is taken apart by what the worker says of itself. One that did not run the model for it says nothing
    of what runs take.
    """
    kind, size_bytes, ahead_bytes = sent
    if reply.source != "run":
        return path.probed(size_bytes, ahead_bytes, max(0.0, round_trip_ms - reply.total_ms), now_s)
    cloud_ms = max(0.0, reply.total_ms - reply.queue_ms)
    return path.answered(RoundTrip(kind, size_bytes, ahead_bytes, round_trip_ms, reply.queue_ms, cloud_ms), now_s)


def paced(
    budget: SharedBudget, path: PathEstimate, settings: UplinkSettings, weights: Mapping[str, float], now_s: float
) -> SharedBudget:
    """The uplink budget at this moment: what was allowed, and never more than a share of what the link carries."""
    allowed_bytes_s = None if settings.uplink_kbps is None else settings.uplink_kbps * 1000 / 8
    carried_bytes_s = path.bandwidth_most_bytes_s(now_s) if settings.bandwidth_share else None
    if carried_bytes_s is not None:
        share_bytes_s = carried_bytes_s * settings.bandwidth_share
        allowed_bytes_s = share_bytes_s if allowed_bytes_s is None else min(allowed_bytes_s, share_bytes_s)
    now, rate_bytes_s = budget.at(now_s), budget.rate_bytes_s
    if rate_bytes_s is None or allowed_bytes_s is None:
        same = rate_bytes_s is allowed_bytes_s
    else:
        same = abs(allowed_bytes_s - rate_bytes_s) <= _SAME_RATE * rate_bytes_s
    return now if same else now.paced(allowed_bytes_s, settings.burst_s, weights)


class Steer:
    """One camera's steering: told of every analysed frame and of what came of it, asked before each decision."""

    def __init__(self, settings: SteeringSettings, tail_deviations: float = 3.0) -> None:
        self._settings, self._deviations = settings, tail_deviations
        self.state, self.agreement = Steering(), Agreement()

    def at(self, now_s: float, outlook: Outlook, remaining_ms: float, levers: Levers) -> Steering:
        """What an analysed frame is to hold to."""
        least = outlook.path.forecast(self._settings.least_bytes, now_s, deviations=self._deviations)
        self.state = self.state.step(
            SteeringView(
                now_s=now_s,
                fill=outlook.fill,
                bucket_s=outlook.bucket_s,
                least_tail_ms=None if least is None else least.tail_ms,
                remaining_ms=remaining_ms,
                lambda_least=levers.lambda_least,
                agreement=self.agreement.f1,
            ),
            self._settings,
        )
        return self.state

    def spares(self, levers: Levers) -> bool:
        """Whether the next frame stays at the edge because so large a share is to."""
        return levers.lambda_least > 0 and self.state.credit + 1.0 - levers.lambda_least < 1.0

    def offered(self, gains: Sequence[float]) -> None:
        """Note what the places of a frame were worth."""
        self.state = self.state.offered(gains)

    def asked(self, places: int, size_bytes: int) -> None:
        """Note that a frame asks about so many places (0: as a whole), in so many bytes."""
        self.state = self.state.asked(places, size_bytes)

    def compared(self, edge: Detections, cloud: Detections) -> None:
        """Note what both models say of one whole frame."""
        same = 0
        for label in set(edge.label.tolist()) & set(cloud.label.tolist()):
            same += len(match(edge.xyxy[edge.label == label], cloud.xyxy[cloud.label == label]))
        self.agreement = self.agreement.add(same, len(edge), len(cloud))
