"""Whether a camera's own model has stopped being right: an audit that never ends. Pure.

Of each audited frame the larger model's answer is known. Two alarms for a change
(``pipeline/policies/sequential.py``) look at it: the model's agreement has fallen below what it was released with, less
a margin; and it is behind the general model on the same frames. While neither is so, the mean number of audits until an
alarm is at least ``audits_per_false_alarm``.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from pipeline.policies.sequential import Bets, Hypothesis

_KEPT = 0.95
"""What the difference from the general model still counts when the next audit comes."""
_LEAST_PAIRS = 10
_LEAST_EXPECTED, _MOST_EXPECTED = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """``fall_margin`` in F1 below the release, ``behind_margin`` in F1 below the general model on the same frames."""

    fall_margin: float = 0.15
    behind_margin: float = 0.05
    audits_per_false_alarm: float = 100_000.0

    @property
    def alpha(self) -> float:
        """Of each of the two alarms."""
        return 1 / (2 * self.audits_per_false_alarm)


@dataclass(frozen=True, slots=True)
class Drift:
    """What the audits of a model have shown. ``released_f1`` is its mean F1 against the larger model as it was judged.

    ``ahead`` is the fading mean of its F1 less the general model's, over ``pairs`` audits of both.
    """

    released_f1: float
    fallen: Bets = field(default_factory=Bets.alarm)
    behind: Bets = field(default_factory=Bets.alarm)
    audits: int = 0
    pairs: int = 0
    ahead: float = 0.0
    recent_f1: float | None = None

    def add(self, own_f1: float, general_f1: float | None, settings: DriftSettings) -> "Drift":
        """After one more audit; ``general_f1`` None where the general model has not looked."""
        expected = min(_MOST_EXPECTED, max(_LEAST_EXPECTED, self.released_f1 - settings.fall_margin))
        recent = own_f1 if self.recent_f1 is None else _KEPT * self.recent_f1 + (1 - _KEPT) * own_f1
        new = replace(
            self,
            fallen=self.fallen.add_restarting(1.0 - own_f1, Hypothesis(0.0, 1.0, 1.0 - expected)),
            audits=self.audits + 1,
            recent_f1=recent,
        )
        if general_f1 is None:
            return new
        kept = _KEPT * min(1.0, self.pairs / _LEAST_PAIRS)  # the first ones are not to stand for all
        return replace(
            new,
            behind=self.behind.add_restarting(general_f1 - own_f1, Hypothesis(-1.0, 1.0, settings.behind_margin)),
            pairs=self.pairs + 1,
            ahead=kept * self.ahead + (1 - kept) * (own_f1 - general_f1),
        )

    def beside_another(self) -> "Drift":
        """The same where there is another general model from now on."""
        return replace(self, behind=Bets.alarm(), pairs=0, ahead=0.0)


@dataclass(frozen=True, slots=True)
class DriftDecision:
    """``fall_back``: the general model answers at once. ``learn_again``: the model stays, and a new one is wanted."""

    kind: Literal["none", "fall_back", "learn_again"]
    reason: str = ""


def judge_drift(drift: Drift, settings: DriftSettings) -> DriftDecision:
    """Whether the model has stopped being right. Where the general model does no better, nothing is won by it."""
    if drift.behind.refutes(settings.alpha):
        why = f"it is behind the general model on the same frames, by {-drift.ahead:.3f} in F1 against the larger model"
        return DriftDecision("fall_back", why)
    if not drift.fallen.refutes(settings.alpha):
        return DriftDecision("none")
    why = f"its agreement with the larger model has fallen to F1 {drift.recent_f1:.3f} from {drift.released_f1:.3f}"
    if drift.pairs >= _LEAST_PAIRS and drift.ahead > 0.0:
        return DriftDecision("learn_again", f"{why}, and the general model's is lower still")
    return DriftDecision("fall_back", why)
