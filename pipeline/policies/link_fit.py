"""The fixed and the size-dependent part of a link's delay, learned from the sizes and delays of what went over it.

``delay = base + size / bandwidth`` is fitted by recursive least squares, as a Kalman filter over (base, slope) whose
covariance grows with time. Innovations are winsorised, so that one retransmission does not count as a slow link; a
two-sided CUSUM test on them (Page, Biometrika 1954) notices a step and opens the filter again, as in Gustafsson,
Adaptive Filtering and Change Detection (2000), with a reset in place of a second filter.
"""

import math
from dataclasses import dataclass, field, replace

LEAST_MS_PER_KB = 0.004
"""2 Gbit/s: beyond it the size of a request does not matter."""
_BASE_SD_MS, _SLOPE_SD = 60.0, 4.0
_BASE_DRIFT_MS, _SLOPE_DRIFT, _SLOPE_DRIFT_SHARE = 2.0, 0.05, 0.1
"""Standard deviation of what base (ms) and slope (ms per kB, and a share of itself) may have changed in a second."""
_MOST_DRIFT_S = 10.0
_WINSOR, _ALARM, _ALLOWANCE = 3.0, 6.0, 0.5
"""In standard deviations: what an innovation counts at most; the CUSUM's threshold; what it forgives per sample."""
_LEAST_NOISE_MS = 1.0
_NOISE_GAIN = 1 / 16
"""Slow, so that the first samples after a step do not pass for a link that has become noisy."""
_SD_PER_DEVIATION = 1.25
"""Standard deviation over mean absolute deviation of normal noise."""


@dataclass(frozen=True, slots=True)
class Line:
    """Delay over size: ``base_ms`` and ``ms_per_kb`` (per 1,000 bytes) with their covariance."""

    base_ms: float = 5.0
    ms_per_kb: float = 0.8
    base_var: float = _BASE_SD_MS**2
    slope_var: float = _SLOPE_SD**2
    cov: float = 0.0

    def delay_ms(self, kb: float) -> float:
        """The expected delay of ``kb`` 1,000 bytes."""
        return self.base_ms + self.ms_per_kb * kb

    def variance(self, kb: float) -> float:
        """Of the expected delay; rounding may not make it negative."""
        return max(0.0, self.base_var + 2 * kb * self.cov + kb * kb * self.slope_var)

    def aged(self, by_s: float) -> "Line":
        """The line when some time has passed: it may have changed.

        Time takes nothing off a variance, not even where a flatter slope means a lower bound: beside the same
        covariance a smaller variance is no covariance matrix any more, and the filter would run away.
        """
        by_s = min(_MOST_DRIFT_S, max(0.0, by_s))
        slope_drift = _SLOPE_DRIFT + _SLOPE_DRIFT_SHARE * self.ms_per_kb
        base_var = min(_BASE_SD_MS**2, self.base_var + _BASE_DRIFT_MS**2 * by_s)
        slope_var = min(self._open_slope_var(), self.slope_var + slope_drift**2 * by_s)
        return replace(self, base_var=max(self.base_var, base_var), slope_var=max(self.slope_var, slope_var))

    def _open_slope_var(self) -> float:
        return (_SLOPE_SD + 2 * self.ms_per_kb) ** 2

    def opened(self) -> "Line":
        """The line after a step was noticed: what was known is a guess again."""
        return replace(self, base_var=_BASE_SD_MS**2, slope_var=self._open_slope_var(), cov=0.0)

    def moved(self, kb: float, error_ms: float, noise_ms: float) -> "Line":
        """The line after a delay that was ``error_ms`` from the expected one, in noise of that standard deviation."""
        gain_base, gain_slope = self.base_var + kb * self.cov, self.cov + kb * self.slope_var
        total = self.variance(kb) + noise_ms**2
        base_var = max(1e-6, self.base_var - gain_base**2 / total)
        slope_var = max(1e-9, self.slope_var - gain_slope**2 / total)
        cov = self.cov - gain_base * gain_slope / total
        base_ms = self.base_ms + gain_base / total * error_ms
        slope = self.ms_per_kb + gain_slope / total * error_ms
        # Out of the range that a link can have: the nearest line within it, in the filter's own metric.
        if slope < LEAST_MS_PER_KB:
            base_ms += cov / slope_var * (LEAST_MS_PER_KB - slope)
            slope = LEAST_MS_PER_KB
        if base_ms < 0:
            slope = max(LEAST_MS_PER_KB, slope - cov / base_var * base_ms)
            base_ms = 0.0
        return Line(base_ms, slope, base_var, slope_var, cov)


@dataclass(frozen=True, slots=True)
class LinkFit:
    """Estimate of one link. ``deviation_ms`` is the mean absolute deviation from the line."""

    line: Line = field(default_factory=Line)
    deviation_ms: float = 0.0
    cusum: tuple[float, float] = (0.0, 0.0)
    samples: int = 0
    at_s: float = float("-inf")

    @property
    def base_ms(self) -> float:
        """The part of a delay that does not depend on size."""
        return self.line.base_ms

    @property
    def ms_per_kb(self) -> float:
        """What 1,000 bytes more take."""
        return self.line.ms_per_kb

    def delay_ms(self, size_bytes: float) -> float:
        """The expected delay of a message; never negative, and no less for a larger one."""
        return self.line.delay_ms(size_bytes / 1000)

    def add(self, size_bytes: float, delay_ms: float, now_s: float) -> "LinkFit":
        """The estimate after one more message of known size and delay."""
        kb = size_bytes / 1000
        if not self.samples:
            noise_ms = max(_LEAST_NOISE_MS, delay_ms / 4)
            line = self.line.moved(kb, delay_ms - self.line.delay_ms(kb), noise_ms)
            return LinkFit(line, delay_ms / 4, samples=1, at_s=now_s)
        noise_ms = max(_LEAST_NOISE_MS, self.deviation_ms * _SD_PER_DEVIATION)
        line = self.line.aged(now_s - self.at_s)
        error_ms, score = _innovation(line, kb, delay_ms, noise_ms)
        cusum = (max(0.0, self.cusum[0] + score - _ALLOWANCE), max(0.0, self.cusum[1] - score - _ALLOWANCE))
        if max(cusum) > _ALARM:
            line, cusum = line.opened(), (0.0, 0.0)
            error_ms, _ = _innovation(line, kb, delay_ms, noise_ms)
        gain = max(_NOISE_GAIN, 1 / (1 + self.samples))
        deviation_ms = self.deviation_ms + gain * (abs(error_ms) - self.deviation_ms)
        return LinkFit(line.moved(kb, error_ms, noise_ms), deviation_ms, cusum, self.samples + 1, now_s)


def _innovation(line: Line, kb: float, delay_ms: float, noise_ms: float) -> tuple[float, float]:
    """How far a delay is from the line, winsorised: in ms, and in standard deviations of what was to be expected."""
    spread_ms = math.sqrt(line.variance(kb) + noise_ms**2)
    score = max(-_WINSOR, min(_WINSOR, (delay_ms - line.delay_ms(kb)) / spread_ms))
    return score * spread_ms, score
