"""The door through which the simulator calls an agent's decision code.

Nothing is decided here: each method hands its values to the policy that a real agent asks at this point, as
``edge_agent/analysis.py`` and ``edge_agent/uplink.py`` do. Where a policy changes, this is the module that follows.
"""

from collections.abc import Mapping

from edge_agent.analysis import ESTIMATE_HOLDS_S, policy_for
from edge_agent.settings import CameraSettings, UplinkSettings
from foveate.simulation.workload import Shot
from pipeline.policies.breaker import Breaker, HoldBack
from pipeline.policies.latency import FreshEstimate
from pipeline.policies.offload import Adaptive, Candidate, OffloadDecision, OffloadView
from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.tokens import SharedBudget


class AgentDecisions:
    """What the cameras of one edge node share: the budget, the circuit breaker, the model of the way to the cloud."""

    __slots__ = ("_breaker", "_budget", "_path")

    def __init__(self, settings: UplinkSettings, weights: Mapping[str, float]) -> None:
        self._breaker = Breaker(settings.misses_to_open, settings.probe_every_s)
        self._budget = SharedBudget.full(settings.uplink_kbps, settings.burst_s, weights, 0.0)
        self._path = PathEstimate.holding(settings.probe_every_s)

    @property
    def obstacle(self) -> str:
        """Why the cloud need not be asked; empty where it may be."""
        return "" if self._breaker.closed else "circuit_open"

    def tails_ms(self, expected_bytes: Mapping[str, float], now_s: float, deviations: float) -> dict[str, float]:
        """The predicted tails of round trips, by kind, as far as they are known."""
        return self._path.tails_ms(expected_bytes, now_s, deviations)

    def available_bytes(self, camera: str, now_s: float) -> float | None:
        """What the budget allows a camera to send now; None is anything."""
        self._budget = self._budget.at(now_s)
        return self._budget.available_bytes(camera)

    def sent(self, camera: str, size_bytes: int, now_s: float) -> float:
        """A question goes out; the bytes that are still on the way up before it."""
        ahead_bytes = self._path.ahead_bytes(now_s)
        self._path = self._path.sent(size_bytes, now_s)
        self._budget = self._budget.at(now_s).take(camera, size_bytes)
        return ahead_bytes

    def answered(self, trip: RoundTrip, now_s: float) -> None:
        """An answer came, in time or late."""
        self._path = self._path.answered(trip, now_s)
        self._breaker = self._breaker.answered()

    def refused(self) -> None:
        """A worker was too busy for a question: the way is open."""
        self._breaker = self._breaker.answered()

    def missed(self, now_s: float) -> None:
        """No answer came by the time at which the frame had to be settled."""
        self._breaker = self._breaker.missed(now_s)

    def backlog(self, now_s: float) -> None:
        """The link takes no more."""
        self._breaker = self._breaker.opened(now_s)

    def next_probe_s(self, unanswered: int) -> float | None:
        """When the next echo probe is due; None where none is."""
        return self._breaker.next_probe_s(unanswered)

    def probed(self, now_s: float) -> None:
        """An echo probe went out."""
        self._breaker = self._breaker.probed(now_s)

    def echoed(self) -> None:
        """A probe came back."""
        self._breaker = self._breaker.echoed()


class CameraDecisions:
    """What one camera decides by, and what it remembers for that. Its scene time is that of capture."""

    __slots__ = (
        "_deviations", "_edge_ms", "_expected_bytes", "_full_frame_at_s", "_hold", "_policy", "agent", "name",
        "settings",
    )  # fmt: skip

    def __init__(self, agent: str, name: str, settings: CameraSettings) -> None:
        self.agent, self.name, self.settings = agent, name, settings
        self._policy = policy_for(settings.mode, Adaptive(settings.offload))
        self._deviations = settings.offload.tail_deviations
        self._hold = HoldBack()
        self._edge_ms = FreshEstimate(ESTIMATE_HOLDS_S)
        self._expected_bytes: dict[str, float] = {}
        self._full_frame_at_s: float | None = None

    def too_late(self, now_s: float, settle_at_s: float) -> bool:
        """Whether the small model need not begin with a frame that must be settled by ``settle_at_s``."""
        return now_s + (self._edge_ms.mean_ms(now_s) or 0.0) / 1000 > settle_at_s

    def looked(self, edge_ms: float, now_s: float) -> None:
        """The small model was done with a frame at ``now_s``."""
        self._edge_ms = self._edge_ms.add(edge_ms, now_s)

    def is_quiet(self, candidates: tuple[Candidate, ...], scene_s: float) -> bool:
        """Whether ``decide`` could only answer that nothing is uncertain, whatever the way to the cloud is like."""
        if candidates or not isinstance(self._policy, Adaptive):
            return False
        full_frame_s = self.settings.offload.full_frame_s
        begun_s = self._full_frame_at_s
        return full_frame_s <= 0 or (begun_s is not None and 0 <= scene_s - begun_s < full_frame_s)

    def decide(
        self, agent: AgentDecisions, candidates: tuple[Candidate, ...], scene_s: float, settle_at_s: float, now_s: float
    ) -> OffloadDecision:
        """Whether the cloud is asked about a frame, about what, and why."""
        if self._full_frame_at_s is None:
            self._full_frame_at_s = scene_s
        reason = agent.obstacle or ("" if self._hold.allows(now_s) else "busy")
        return self._policy.decide(
            OffloadView(
                candidates=candidates,
                remaining_ms=(settle_at_s - now_s) * 1000,
                round_trip_ms=agent.tails_ms(self._expected_bytes, now_s, self._deviations),
                expected_bytes=self._expected_bytes,
                tokens_bytes=agent.available_bytes(self.name, now_s),
                since_full_frame_s=scene_s - self._full_frame_at_s,
                reachable=not reason,
                unreachable_reason=reason,
            )
        )

    def drawn(self, kind: str, shot: Shot, scene_s: float) -> None:
        """A picture was made for the cloud."""
        before = self._expected_bytes.get(kind, shot.size_bytes)
        self._expected_bytes[kind] = 0.7 * before + 0.3 * shot.size_bytes
        if kind == "frame":
            self._full_frame_at_s = scene_s

    def may_ask(self, now_s: float) -> bool:
        """Whether the camera does not hold back from a busy worker."""
        return self._hold.allows(now_s)

    def answered(self) -> None:
        """A worker had time for the camera."""
        self._hold = self._hold.answered()

    def refused(self, now_s: float) -> None:
        """A worker was too busy for the camera."""
        self._hold = self._hold.refused(now_s)
