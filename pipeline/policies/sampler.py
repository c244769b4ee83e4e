"""Which frames are due: a token clock on the scene's time, never on frame numbers, and the rate that a scene needs."""

import math
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


_SPARSE = 0.75
"""Periods between two frames of a camera from which on hardly one is left out."""


class TokenClock:
    """At most ``rate_fps`` frames per second of scene time, evenly spaced.

    Due times lie on a grid, so that jitter of the camera does not lower the rate; a frame may come a tenth of a
    period early. After a gap nothing is caught up. The grid is that of the clock, multiples of the period, and not of
    the first frame: several who watch one camera by one clock take the same frames, whenever each began. Of a camera
    that gives hardly more frames than are wanted nearly all are taken, by its own beat, which is kept half a period off
    the due times: where it lay just before the clock's, jitter would cost frames.
    """

    def __init__(self, rate_fps: float) -> None:
        if not rate_fps > 0:
            raise ValueError(f"rate_fps is {rate_fps}, must be above 0")
        self._period_s = 1.0 / rate_fps
        self._taken_s: float | None = None
        self._last_s = float("-inf")
        self._step_s = 0.0

    def take(self, at_s: float, most_fps: float | None = None) -> SampleDecision:
        """As the Protocol says; ``most_fps`` (above 0) lowers the rate for this once."""
        if at_s < self._last_s:
            self._taken_s = None
        usual_step_s, self._step_s, self._last_s = self._step_s, at_s - self._last_s, at_s
        if self._taken_s is None:
            self._taken_s, self._step_s = _tick(at_s, self._period_s), 0.0
            return SampleDecision(due=True, reason="first")
        period_s, due_s = self._period_s, self._taken_s + self._period_s
        if most_fps is not None and 1.0 / most_fps > period_s:
            period_s = 1.0 / most_fps
            due_s = _tick(self._taken_s, period_s) + period_s
        if at_s < due_s - 0.1 * period_s:
            return SampleDecision(due=False, reason="not_due")
        if at_s < due_s + period_s:
            self._taken_s = due_s
        elif usual_step_s > _SPARSE * self._period_s:
            self._taken_s = at_s - 0.5 * self._period_s
        else:
            self._taken_s = _tick(at_s, self._period_s)
        return SampleDecision(due=True, reason="due")


def _tick(at_s: float, period_s: float) -> float:
    """The newest multiple of a period; a rounding error does not make it the one before."""
    return math.floor(at_s / period_s + 1e-6) * period_s


@dataclass(frozen=True, slots=True)
class RateSettings:
    """Settings of the adaptive rate; ``least_fps`` and ``most_fps`` bound it.

    In one period nothing shall move by more than ``step_widths`` of its own width. More new tracks per second than
    ``births_per_s``, over about ``memory_s``, ask for the full rate. The rate is raised at once, and lowered by one
    rung when for ``dwell_s`` less than the share ``margin`` of the lower rung was needed.
    """

    most_fps: float
    least_fps: float = 1.0
    step_widths: float = 0.15
    births_per_s: float = 0.5
    memory_s: float = 2.0
    dwell_s: float = 2.0
    margin: float = 0.8


_RUNGS = (1.0, 2 / 3, 1 / 2, 1 / 3, 1 / 5)
"""Of the full rate: each leaves the frames of a camera about evenly spaced."""


class AdaptiveRate:
    """How many frames per second a scene needs, from how fast its tracks move and how many are new.

    *Source*: the rule of Chameleon (Jiang et al., SIGCOMM 2018), that the best rate follows the content and changes
    within one video, with the speed of tracks in place of periodic profiling: what a constant-velocity track foretells
    needs no look.
    """

    def __init__(self, settings: RateSettings) -> None:
        self._settings = settings
        rungs = [settings.most_fps * rung for rung in _RUNGS]
        least = min(settings.least_fps, settings.most_fps)
        self._rungs = [rate for rate in rungs if rate > least] + [least]
        self._rung = 0
        self._births = 0.0
        self._at_s: float | None = None
        self._calm_since_s = 0.0

    @property
    def rate_fps(self) -> float:
        """The rate that is enough now."""
        return self._rungs[self._rung]

    def observe(self, speed_widths_s: float, births: int, at_s: float) -> float:
        """Take in one analysed frame: the speed of its moving tracks in box widths per second, and its new tracks.

        ``at_s`` is its scene time (seconds, rising; a fall starts anew). Returns the rate from now on.
        """
        s = self._settings
        if self._at_s is None or at_s < self._at_s:
            self._rung, self._births, self._calm_since_s, self._at_s = 0, 0.0, at_s, at_s
        self._births = self._births * math.exp(-(at_s - self._at_s) / s.memory_s) + births / s.memory_s
        self._at_s = at_s
        needed_fps = s.most_fps if self._births > s.births_per_s else speed_widths_s / s.step_widths
        while self._rung and self.rate_fps < needed_fps:
            self._rung -= 1
            self._calm_since_s = at_s
        lower = self._rungs[min(self._rung + 1, len(self._rungs) - 1)]
        if needed_fps > s.margin * lower:
            self._calm_since_s = at_s
        elif at_s - self._calm_since_s >= s.dwell_s and lower < self.rate_fps:
            self._rung += 1
            self._calm_since_s = at_s
        return self.rate_fps
