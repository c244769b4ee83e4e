"""Whether a new model may take a camera over, judged beside the current one on the same frames. Pure.

A candidate begins in the *shadow*: it looks at frames whose answers the current model gives. As a *canary* it answers
at most a tenth of the frames, and then all of them. What is held against it are differences on frames that both have
looked at, so that a hard hour is hard for both. Each gate is a bet against "it is no worse than allowed"
(``pipeline/policies/sequential.py``): a candidate that is no worse at any gate is withdrawn with a probability of at
most ``false_withdrawal``, however long it is judged; it is promoted only once "it is worse than allowed" is refuted.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from pipeline.policies.evidence import Evidence, Gate, RolloutSettings
from pipeline.policies.sequential import Bets


class Stage(StrEnum):
    """How far a candidate has come."""

    SHADOW = "shadow"
    CANARY = "canary"
    FULL = "full"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Decision:
    """The stage that follows, and why. ``too_long``: it was judged for long enough, and nothing follows from it."""

    stage: Stage
    reason: str
    gate: Gate | None = None
    too_long: bool = False


class RolloutGate:
    """Decides about candidates; see the module."""

    def __init__(self, settings: RolloutSettings) -> None:
        self.settings = settings

    def decide(self, stage: Stage, evidence: Evidence, promised_ratio: float, *, paused: bool = False) -> Decision:
        """What is to become of a candidate in the shadow or as a canary. A paused one can still be withdrawn."""
        for gate in Gate:
            if self._fails(gate, evidence):
                return Decision(Stage.WITHDRAWN, _fault(gate, evidence), gate)
        if stage is Stage.FULL or stage is Stage.WITHDRAWN:
            return Decision(stage, "it is decided")
        if paused:
            return Decision(stage, "it is paused by command")
        missing, too_long = self._missing(stage, evidence, promised_ratio), self.too_long(evidence)
        if not missing and not (too_long and stage is Stage.SHADOW):
            return Decision(Stage.CANARY if stage is Stage.SHADOW else Stage.FULL, _merit(evidence))
        if too_long:  # it stays in the shadow from then on, though the evidence for a canary may be there
            why = f"after {evidence.comparisons} comparisons it is neither better nor worse for certain"
            return Decision(Stage.SHADOW, f"{why}: {missing}" if missing else why, too_long=True)
        return Decision(stage, missing)

    def too_long(self, evidence: Evidence) -> bool:
        """Whether a candidate was judged for long enough: what is not certain by then hardly ever will be."""
        return evidence.comparisons >= self.settings.most_comparisons

    def _fails(self, gate: Gate, evidence: Evidence) -> bool:
        if not evidence.against[gate].refutes(self.settings.alpha(gate)):
            return False
        # The current model may see what is not there; where the larger model has spoken for the candidate, it counts.
        return gate is not Gate.UNSEEN or evidence.in_favour.log_evidence <= 0.0

    def _missing(self, stage: Stage, evidence: Evidence, promised_ratio: float) -> str:
        """What is still missing for the next stage; empty where nothing is."""
        settings = self.settings
        if not evidence.comparisons:
            return "the larger model has seen no frame yet that both have looked at"
        if evidence.with_objects < settings.least_with_objects:
            return f"{evidence.with_objects} of {settings.least_with_objects} comparisons with objects"
        doubt = settings.canary_doubt if stage is Stage.SHADOW else settings.full_doubt
        if not evidence.in_favour.refutes(doubt):
            return f"not sure enough after {evidence.comparisons} comparisons that it is no worse"
        p95_ms = evidence.p95_ms
        if p95_ms is None:
            return "no times of its looks yet"
        allowed_ms = settings.allowed_ms(p95_ms[1], promised_ratio)
        if p95_ms[0] > allowed_ms:
            return f"its P95 of {p95_ms[0]:.1f} ms is above the {allowed_ms:.1f} ms that were promised"
        if stage is Stage.CANARY and evidence.served < settings.least_served:
            return f"it has answered {evidence.served} of {settings.least_served} frames"
        return ""


def serves(camera: str, now_s: float, evidence: Evidence, settings: RolloutSettings) -> bool:
    """Whether a canary answers the frame at hand: in whole slices of time, one of so many by a hash of camera and time,
    and never more than ``canary_share`` of the frames since it came.
    """
    if not settings.canary_share or evidence.served + 1 > settings.canary_share * (evidence.frames + 1):
        return False
    slices = max(1, round(1 / settings.canary_share))
    number = int(now_s // settings.slice_s)
    digest = blake2b(f"canary/{camera}/{number // slices}".encode(), digest_size=8).digest()
    return number % slices == int.from_bytes(digest, "big") % slices


def progress(evidence: Evidence, settings: RolloutSettings) -> dict[str, float]:
    """How near each gate is to a withdrawal, and ``in_favour`` to a promotion: 0 nothing, 1 enough."""
    found = {gate.value: _share(evidence.against[gate], settings.alpha(gate)) for gate in Gate}
    return found | {"in_favour": _share(evidence.in_favour, settings.full_doubt)}


def _share(bets: Bets, alpha: float) -> float:
    return round(min(1.0, max(0.0, bets.log_evidence / -math.log(alpha))), 3)


def _fault(gate: Gate, evidence: Evidence) -> str:
    agreement, p95_ms = evidence.agreement or (0.0, 0.0), evidence.p95_ms or (0.0, 0.0)
    after = f"after {evidence.against[gate].samples} frames"
    return {
        Gate.AGREEMENT: f"it agrees less with the larger model, F1 {agreement[0]:.3f} for {agreement[1]:.3f}, {after}",
        Gate.EMPTY: f"it shows nothing where the larger and the current model see objects, {after}",
        Gate.CALIBRATION: f"its scores are further from what is right than the current model's, {after}",
        Gate.UNSEEN: f"it shows nothing on nearly all frames where the current model sees something, {after}",
        Gate.SLOW: f"it is slower than promised, P95 {p95_ms[0]:.1f} ms against {p95_ms[1]:.1f} ms, {after}",
        Gate.LATE: f"its looks take longer than the deadline leaves, P95 {p95_ms[0]:.1f} ms, {after}",
    }[gate]


def _merit(evidence: Evidence) -> str:
    candidate, current = evidence.agreement or (0.0, 0.0)
    return (
        f"F1 {candidate:.3f} against the current model's {current:.3f} over {evidence.comparisons} comparisons,"
        f" {evidence.with_objects} with objects"
    )
