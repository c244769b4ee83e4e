"""What a second look will cost in time, from what it cost before.

Smoothed mean and deviation as in RFC 6298 (section 2), per path; the tail is mean plus a multiple of the deviation.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """Running estimate of one duration in milliseconds."""

    mean_ms: float = 0.0
    deviation_ms: float = 0.0
    samples: int = 0

    def add(self, sample_ms: float) -> "DurationEstimate":
        """The estimate after one more sample."""
        if self.samples == 0:
            return DurationEstimate(sample_ms, sample_ms / 2, 1)
        error = abs(sample_ms - self.mean_ms)
        return replace(
            self,
            mean_ms=self.mean_ms + (sample_ms - self.mean_ms) / 8,
            deviation_ms=self.deviation_ms + (error - self.deviation_ms) / 4,
            samples=self.samples + 1,
        )

    def tail_ms(self, deviations: float = 3.0) -> float | None:
        """Mean plus some deviations; None before the first sample."""
        return self.mean_ms + deviations * self.deviation_ms if self.samples else None
