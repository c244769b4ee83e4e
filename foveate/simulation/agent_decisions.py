"""The door through which the simulator calls an agent's decision code.

Nothing is decided here: each method hands its values to the policy that a real agent asks at this point, as
``edge_agent/analysis.py`` and ``edge_agent/uplink.py`` do. Where a policy changes, this is the module that follows.
"""

from collections.abc import Mapping

from edge_agent.analysis import ESTIMATE_HOLDS_S, FIRST_BYTES_PER_PX, policy_for
from edge_agent.gain_lessons import audited
from edge_agent.levers import Levers
from edge_agent.settings import CameraSettings, UplinkSettings
from edge_agent.steer import Outlook, Steer, paced
from foveate.simulation.scene import Look
from foveate.simulation.workload import RecordedFrame, Shot
from pipeline.frames import FrameKey
from pipeline.policies.breaker import Breaker, HoldBack
from pipeline.policies.fallback import Wait, wait
from pipeline.policies.latency import FreshEstimate
from pipeline.policies.offload import OFFLOAD_KINDS, Adaptive, OffloadDecision, OffloadView
from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.tokens import SharedBudget
from pipeline.policies.window import Departure, SendWindow


class AgentDecisions:
    """What the cameras of one edge node share: the budget, the circuit breaker, the model of the way to the cloud."""

    __slots__ = ("_breaker", "_budget", "_settings", "_weights", "path", "window")

    def __init__(self, settings: UplinkSettings, weights: Mapping[str, float]) -> None:
        self._settings, self._weights = settings, weights
        self._breaker = Breaker(settings.misses_to_open, settings.probe_every_s)
        self._budget = SharedBudget.full(settings.uplink_kbps, settings.burst_s, weights, 0.0)
        self.path = PathEstimate.holding(settings.probe_every_s)
        self.window = SendWindow()

    @property
    def closed(self) -> bool:
        """Whether questions may be sent."""
        return self._breaker.closed

    def outlook(self, camera: "CameraDecisions", now_s: float) -> Outlook:
        """What a camera may expect of the cloud now."""
        self._budget = paced(self._budget, self.path, self._settings, self._weights, now_s)
        reason = "" if self._breaker.closed else "circuit_open"
        if not reason and not camera.may_ask(now_s):
            reason = "busy"
        tails = self.path.tails_ms(camera.expected_bytes, now_s, camera.settings.offload.tail_deviations)
        tokens_bytes, fill = self._budget.available_bytes(camera.name), self._budget.fill(camera.name)
        return Outlook(not reason, reason, tails, tokens_bytes, self.path, fill, self._settings.burst_s)

    def sent(self, camera: str, size_bytes: int, unanswered_bytes: int, now_s: float) -> tuple[float, Departure]:
        """A question goes out: the bytes that are on the way up before it, and what to remember until its reply."""
        ahead_bytes, departure = self.path.ahead_bytes(now_s), self.window.departs(size_bytes, unanswered_bytes, now_s)
        self.path = self.path.sent(size_bytes, now_s)
        self._budget = self._budget.at(now_s).take(camera, size_bytes)
        return ahead_bytes, departure

    def replied(self, size_bytes: int, departure: Departure, now_s: float) -> None:
        """A reply of whatever kind came."""
        self.window = self.window.arrived(size_bytes, departure, now_s)

    def answered(self, trip: RoundTrip | None, now_s: float) -> None:
        """An answer came, in time or late; None where its round trip says nothing of the way as it is now."""
        if trip is not None:
            self.path = self.path.answered(trip, now_s)
        self._breaker = self._breaker.answered()

    def missed(self, now_s: float) -> None:
        """No answer came by the time at which the frame had to be settled."""
        self._breaker = self._breaker.missed(now_s)

    def backed_up(self, now_s: float) -> None:
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
    """What one camera decides by, and what it remembers for that. Its scene time is that of capture.

    ``full_frame_at_s`` is when it last sent a whole frame; None: it has just begun.
    """

    __slots__ = (
        "_bytes_per_px", "_edge_ms", "_full_frame_at_s", "_hold", "_levers", "_policy", "_sending", "_steer", "agent",
        "expected_bytes", "name", "settings",
    )  # fmt: skip

    def __init__(self, agent: str, name: str, settings: CameraSettings, full_frame_at_s: float | None = None) -> None:
        self.agent, self.name, self.settings = agent, name, settings
        self.expected_bytes: dict[str, float] = {}
        self._policy = policy_for(settings.mode, OFFLOAD_KINDS[settings.offload.policy](settings.offload))
        self._steer, self._levers, self._hold = (
            Steer(settings.steering, settings.offload.tail_deviations),
            Levers(),
            HoldBack(),
        )
        self._edge_ms = FreshEstimate(ESTIMATE_HOLDS_S)
        self._bytes_per_px, self._sending = FIRST_BYTES_PER_PX, True
        self._full_frame_at_s = full_frame_at_s

    def too_late(self, now_s: float, settle_at_s: float) -> bool:
        """Whether the small model need not begin with a frame that must be settled by ``settle_at_s``."""
        return now_s + (self._edge_ms.mean_ms(now_s) or 0.0) / 1000 > settle_at_s

    def looked(self, edge_ms: float, now_s: float) -> None:
        """The small model was done with a frame at ``now_s``."""
        self._edge_ms = self._edge_ms.add(edge_ms, now_s)

    def is_quiet(self, frame: RecordedFrame, scene_s: float) -> bool:
        """Whether ``decide`` could only answer that nothing is uncertain, whatever the way to the cloud is like.

        Such a frame is not put to the policy. Steering, which takes a step with every frame, takes that one with the
        next frame that has something to ask.
        """
        if frame.places or not isinstance(self._policy, Adaptive):
            return False
        full_frame_s, begun_s = self.settings.offload.full_frame_s, self._full_frame_at_s
        return full_frame_s <= 0 or (begun_s is not None and 0 <= scene_s - begun_s < full_frame_s)

    def decide(self, agent: AgentDecisions, look: Look, now_s: float) -> OffloadDecision:
        """Whether the cloud is asked about a frame, about what, and why."""
        settings, scene_s = self.settings.offload, look.captured_s
        if self._full_frame_at_s is None:
            self._full_frame_at_s = scene_s
        outlook, remaining_ms = agent.outlook(self, now_s), (look.settle_at_s - now_s) * 1000
        steering = self._steer.at(now_s, outlook, remaining_ms, self._levers)
        self._steer.offered([place.gain for place in look.scene.due])
        audit = audited(FrameKey(self.name, 0, look.number), settings.audit_share)
        decision = self._policy.decide(
            OffloadView(
                candidates=look.scene.due,
                remaining_ms=remaining_ms,
                round_trip_ms=outlook.round_trip_ms,
                expected_bytes=self.expected_bytes,
                tokens_bytes=outlook.tokens_bytes,
                since_full_frame_s=scene_s - self._full_frame_at_s,
                reachable=outlook.reachable and not steering.hindrance,
                unreachable_reason=outlook.reason or steering.hindrance,
                whole_frames=self.settings.privacy.whole_frames,
                price_per_kb=steering.price_per_kb,
                bytes_per_px=self._bytes_per_px,
                sending=self._sending,
                least_score=look.scene.frame.least_score,
                audited=look.scene.all if audit else (),
                most_bytes=outlook.path.most_bytes(remaining_ms, now_s, deviations=settings.tail_deviations),
            )
        )
        if look.scene.all or decision.kind != "none":
            self._sending = decision.kind != "none"
        return decision

    def drawn(self, decision: OffloadDecision, shot: Shot) -> None:
        """A picture was made for the cloud."""
        before = self.expected_bytes.get(decision.kind, shot.size_bytes)
        self.expected_bytes[decision.kind] = 0.7 * before + 0.3 * shot.size_bytes
        if decision.kind == "mosaic":
            self._bytes_per_px = 0.7 * self._bytes_per_px + 0.3 * shot.size_bytes / shot.shown_px

    def asks(self, decision: OffloadDecision, shot: Shot, scene_s: float) -> None:
        """The picture goes to the uplink."""
        if decision.kind == "frame":
            self._full_frame_at_s = scene_s
        self._steer.asked(len(decision.places), shot.size_bytes)

    def wait(self, now_s: float, settle_at_s: float, p95_ms: float | None) -> Wait:
        """How long the answer to a question that is sent now is waited for."""
        return wait(now_s, settle_at_s, p95_ms, self.settings.wait)

    def may_ask(self, now_s: float) -> bool:
        """Whether the camera does not hold back from a busy worker."""
        return self._hold.allows(now_s)

    def answered(self) -> None:
        """A worker had time for the camera."""
        self._hold = self._hold.answered()

    def refused(self, now_s: float) -> None:
        """A worker was too busy for the camera."""
        self._hold = self._hold.refused(now_s)
