"""What is known of a candidate beside the current model, and what is allowed. Pure.

What counts are differences on frames that both have looked at, so that a hard hour is hard for both. For each gate a
bet runs against "the candidate is no worse than allowed" (``pipeline/policies/sequential.py``).
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median

from pipeline.policies.comparison import Comparison
from pipeline.policies.sequential import Bets, Hypothesis

KEPT_TIMES = 64
"""Pairs of times of which the 95th percentile is taken."""
UNSEEN_LIMIT = 0.8
"""The share of the frames on which the current model sees something and the candidate may see nothing: the current
one may see what is not there.
"""
SLOW_LIMIT, RECENT_LOOKS = 0.5, 15
"""The share of a candidate's looks that may take longer than the median of the current model's recent ones allows: of
medians a busy machine changes little, and both have it.
"""


class Gate(StrEnum):
    """What a candidate is held to. Agreement, empty frames and calibration need the larger model's answers."""

    AGREEMENT = "agreement"
    EMPTY = "empty"
    CALIBRATION = "calibration"
    UNSEEN = "unseen"
    SLOW = "slow"
    LATE = "late"


ALPHA_SHARES = {
    Gate.AGREEMENT: 0.4,
    Gate.EMPTY: 0.15,
    Gate.CALIBRATION: 0.1,
    Gate.UNSEEN: 0.1,
    Gate.SLOW: 0.15,
    Gate.LATE: 0.1,
}
"""How the probability of a false withdrawal is divided; by the union bound the parts add up to the whole."""


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """What is allowed, and how sure one must be.

    Margins are differences of means that a candidate may be worse by: ``agreement_margin`` in F1, ``empty_margin`` and
    ``late_margin`` in shares of frames, ``calibration_margin`` in Brier score. A candidate is slow half of whose looks
    take over ``time_tolerance`` times what was promised and ``slack_ms``. ``canary_doubt`` and ``full_doubt`` are the
    probabilities of taking a candidate on, by 10 % and wholly, that is worse than the margin. One in
    ``1 / canary_share`` slices of ``slice_s`` is the canary's.
    """

    canary_share: float = 0.1
    slice_s: float = 60.0
    agreement_margin: float = 0.05
    empty_margin: float = 0.05
    calibration_margin: float = 0.1
    late_margin: float = 0.05
    time_tolerance: float = 1.4
    slack_ms: float = 1.0
    false_withdrawal: float = 0.01
    canary_doubt: float = 0.2
    full_doubt: float = 0.05
    least_with_objects: int = 20
    least_served: int = 20
    most_comparisons: int = 1500

    @property
    def hypotheses(self) -> dict[Gate, Hypothesis]:
        """What each gate bets against, in how much worse the candidate is than the current model."""
        return {
            Gate.AGREEMENT: Hypothesis(-1.0, 1.0, self.agreement_margin),
            Gate.EMPTY: Hypothesis(-1.0, 1.0, self.empty_margin),
            Gate.CALIBRATION: Hypothesis(-1.0, 1.0, self.calibration_margin),
            Gate.UNSEEN: Hypothesis(0.0, 1.0, UNSEEN_LIMIT),
            Gate.SLOW: Hypothesis(0.0, 1.0, SLOW_LIMIT),
            Gate.LATE: Hypothesis(-1.0, 1.0, self.late_margin),
        }

    def allowed_ms(self, current_ms: float, promised_ratio: float) -> float:
        """What a candidate's look may take where the current model's takes ``current_ms``."""
        return self.time_tolerance * (promised_ratio * current_ms + self.slack_ms)

    def alpha(self, gate: Gate) -> float:
        """The probability of a false withdrawal that is a gate's."""
        return self.false_withdrawal * ALPHA_SHARES[gate]


@dataclass(frozen=True, slots=True)
class Looks:
    """What two looks at one frame took, and whether each shows nothing. ``room_ms`` is what the deadline leaves."""

    candidate_ms: float
    current_ms: float
    room_ms: float
    candidate_empty: bool
    current_empty: bool


def _all_gates() -> dict[Gate, Bets]:
    return {gate: Bets() for gate in Gate}


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a candidate beside the current model.

    ``against`` is what was won by betting that it is worse, ``in_favour`` by betting that its F1 is not. ``frames``
    have been answered since it came, ``served`` of them by it.
    """

    against: dict[Gate, Bets] = field(default_factory=_all_gates)
    in_favour: Bets = field(default_factory=Bets)
    comparisons: int = 0
    with_objects: int = 0
    candidate_f1_sum: float = 0.0
    current_f1_sum: float = 0.0
    times_ms: tuple[tuple[float, float], ...] = ()
    frames: int = 0
    served: int = 0

    def __post_init__(self) -> None:
        if self.against.keys() != set(Gate):
            raise ValueError(f"there is evidence of {sorted(self.against)}, and gates are {sorted(Gate)}")

    def compared(self, found: Comparison, settings: RolloutSettings) -> "Evidence":
        """The evidence after one more frame that both and the larger model have seen."""
        candidate, current = found.candidate, found.current
        better = candidate.f1 - current.f1
        worse = {Gate.AGREEMENT: -better, Gate.EMPTY: float(candidate.missed_all) - float(current.missed_all)}
        if candidate.brier is not None and current.brier is not None:
            worse[Gate.CALIBRATION] = candidate.brier - current.brier
        # What is to be refuted for a promotion: that it is better by no more than minus the margin.
        no_better = Hypothesis(-1.0, 1.0, -settings.agreement_margin)
        return replace(
            self,
            against=self._with(worse, settings),
            in_favour=self.in_favour.add(better, no_better),
            comparisons=self.comparisons + 1,
            with_objects=self.with_objects + bool(found.objects),
            candidate_f1_sum=self.candidate_f1_sum + candidate.f1,
            current_f1_sum=self.current_f1_sum + current.f1,
        )

    def looked(self, looks: Looks, promised_ratio: float, settings: RolloutSettings) -> "Evidence":
        """The evidence after both have looked at one more frame, with or without the larger model.

        ``promised_ratio`` is the candidate's time as a multiple of the current model's, by its manifest.
        """
        times_ms = (*self.times_ms, (looks.candidate_ms, looks.current_ms))[-KEPT_TIMES:]
        usual_ms = median(ms for _, ms in times_ms[-RECENT_LOOKS:])
        slow = looks.candidate_ms > settings.allowed_ms(usual_ms, promised_ratio)
        late = [ms > looks.room_ms for ms in (looks.candidate_ms, looks.current_ms)]
        worse = {
            Gate.SLOW: float(slow),
            Gate.LATE: float(late[0]) - float(late[1]),
        }
        if not looks.current_empty:
            worse[Gate.UNSEEN] = float(looks.candidate_empty)
        return replace(self, against=self._with(worse, settings), times_ms=times_ms)

    def answered(self, *, by_candidate: bool) -> "Evidence":
        """The evidence after one more frame was answered."""
        return replace(self, frames=self.frames + 1, served=self.served + by_candidate)

    def _with(self, worse: dict[Gate, float], settings: RolloutSettings) -> dict[Gate, Bets]:
        hypotheses = settings.hypotheses
        return self.against | {gate: self.against[gate].add(worse[gate], hypotheses[gate]) for gate in worse}

    @property
    def agreement(self) -> tuple[float, float] | None:
        """Mean F1 of the candidate and of the current model against the larger one; None before any comparison."""
        if not self.comparisons:
            return None
        return self.candidate_f1_sum / self.comparisons, self.current_f1_sum / self.comparisons

    @property
    def p95_ms(self) -> tuple[float, float] | None:
        """The 95th percentile of what the looks took, candidate and current; None before any."""
        if not self.times_ms:
            return None
        at = max(0, -(-95 * len(self.times_ms) // 100) - 1)
        return sorted(c for c, _ in self.times_ms)[at], sorted(k for _, k in self.times_ms)[at]
