"""Whether a frame that has changed so much, and so long after the last one that was kept, is kept.

Changes where something is tracked are judged apart from those elsewhere: a person who stands and fidgets must not make
the camera blind to the next one, and what a track foretells can wait for the rate that the scene needs. Where the scene
is hardly ever idle the change has nothing to tell, and sampling stays uniform.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.policies.worth import Evidence, LearnedWorth, WorthSettings

_TOLERANCE_S = 1e-6
_IDLE_GAIN = 0.02
"""Of the running share of idle frames: it remembers about 50 looks."""


@dataclass(frozen=True, slots=True)
class Change:
    """The largest connected change, as a share of the picture, away from tracked things and at them."""

    elsewhere: float = 0.0
    tracked: float = 0.0


@dataclass(frozen=True, slots=True)
class News:
    """What the look at a frame has shown: something that was not tracked before, or a track gone astray."""

    elsewhere: bool
    tracked: bool


@dataclass(frozen=True, slots=True)
class KeepSettings:
    """As in ``ChangeSettings``."""

    least_area: float
    max_gap_s: float
    idle_share: float
    audit_share: float


@dataclass(frozen=True, slots=True)
class KeepMemory:
    """What the rule of a camera has learned, starting from ``least_area``."""

    least_area: float
    elsewhere: Evidence
    tracked: Evidence

    def as_dict(self) -> dict[str, Any]:
        """The memory as plain values, for JSON."""
        evidence = {"elsewhere": self.elsewhere.as_dict(), "tracked": self.tracked.as_dict()}
        return {"least_area": self.least_area, **evidence}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "KeepMemory":
        """The memory that ``as_dict`` gave. Raises ValueError where it is none."""
        try:
            least_area, elsewhere, tracked = float(values["least_area"]), values["elsewhere"], values["tracked"]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"what its gate has learned cannot be read ({error!r})") from error
        return cls(least_area, Evidence.from_dict(elsewhere), Evidence.from_dict(tracked))


class KeepRule:
    """The rule of one camera, with what it has learned."""

    def __init__(self, settings: KeepSettings) -> None:
        self._settings = settings
        self._elsewhere = LearnedWorth(WorthSettings(settings.least_area))
        self._tracked = LearnedWorth(WorthSettings(settings.least_area))
        self._idle = 0.5
        self._audit = 0.0

    def decide(self, change: Change, gap_s: float, period_s: float) -> tuple[bool, str]:
        """Whether to keep the frame, and why.

        ``gap_s`` since the last kept frame (below 0 where time fell); one frame in ``period_s`` is enough while only
        tracked things change.
        """
        elsewhere = change.elsewhere >= self._elsewhere.threshold
        tracked = change.tracked >= self._tracked.threshold
        self._idle += _IDLE_GAIN * (float(not (elsewhere or tracked)) - self._idle)
        never_idle = self._idle < self._settings.idle_share
        due = not 0 <= gap_s < period_s - _TOLERANCE_S
        if elsewhere or (tracked and due):
            return True, "changed"
        if not 0 <= gap_s < self._settings.max_gap_s - _TOLERANCE_S:
            return True, "max_gap"
        if never_idle and due:
            return True, "never_idle"
        if tracked or never_idle:
            return False, "not_due"
        return self._audited()

    def _audited(self) -> tuple[bool, str]:
        """A small share of what would be left out is looked at all the same, to learn from."""
        self._audit += self._settings.audit_share
        if self._audit < 1:
            return False, "unchanged"
        self._audit -= 1
        return True, "audit"

    @property
    def memory(self) -> KeepMemory:
        """What was learned."""
        return KeepMemory(self._settings.least_area, self._elsewhere.evidence, self._tracked.evidence)

    def recall(self, memory: KeepMemory) -> None:
        """Go on from what was learned before, unless that started from another ``least_area``."""
        if memory.least_area == self._settings.least_area:
            self._elsewhere.recall(memory.elsewhere)
            self._tracked.recall(memory.tracked)

    def learn(self, change: Change, news: News) -> None:
        """Take in what a kept frame with such a change has shown."""
        self._elsewhere.learn(change.elsewhere, news=news.elsewhere)
        self._tracked.learn(change.tracked, news=news.tracked)
