"""Which frames are due: a token clock on the scene's time, never on frame numbers."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SampleDecision:
    """Whether a frame is due, and why."""

    due: bool
    reason: str


class Sampler(Protocol):
    """Decides which frames are due. Fed every frame in order."""

    def take(self, at_s: float) -> SampleDecision:
        """Decide on the frame of scene time ``at_s`` (seconds, rising; a fall restarts the clock)."""
        ...


class TokenClock:
    """At most ``rate_fps`` frames per second of scene time, evenly spaced.

    Due times lie on a grid, so that jitter of the camera does not lower the rate; a frame may come a tenth of a
    period early. After a gap the grid starts anew instead of catching up.
    """

    def __init__(self, rate_fps: float) -> None:
        if not rate_fps > 0:
            raise ValueError(f"rate_fps is {rate_fps}, must be above 0")
        self._period_s = 1.0 / rate_fps
        self._due_s: float | None = None
        self._last_s = float("-inf")

    def take(self, at_s: float) -> SampleDecision:
        if at_s < self._last_s:
            self._due_s = None
        self._last_s = at_s
        if self._due_s is None:
            self._due_s = at_s + self._period_s
            return SampleDecision(due=True, reason="first")
        if at_s < self._due_s - 0.1 * self._period_s:
            return SampleDecision(due=False, reason="not_due")
        self._due_s += self._period_s
        if self._due_s <= at_s:
            self._due_s = at_s + self._period_s
        return SampleDecision(due=True, reason="due")


class EveryFrame:
    """Takes every frame."""

    def take(self, at_s: float) -> SampleDecision:  # noqa: ARG002 - the Protocol's argument
        return SampleDecision(due=True, reason="every")
