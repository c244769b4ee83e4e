"""What a second look will cost in time, from what it cost before.

Smoothed mean and deviation as in RFC 6298 (section 2) but for the first sample; the tail is the mean plus a multiple
of the deviation.
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
            # RFC 6298 starts with half the sample; with three deviations one slow first answer would rule out the next.
            return DurationEstimate(sample_ms, sample_ms / 4, 1)
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


@dataclass(frozen=True, slots=True)
class FreshEstimate:
    """An estimate that is believed for ``holds_s`` after its newest sample, and starts anew when one comes later.

    A prediction that keeps something from being tried would never be renewed; one that has aged lets it be tried.
    """

    holds_s: float
    estimate: DurationEstimate = DurationEstimate()
    at_s: float = float("-inf")

    def add(self, sample_ms: float, now_s: float) -> "FreshEstimate":
        """The estimate after one more sample."""
        before = self.estimate if self._holds(now_s) else DurationEstimate()
        return replace(self, estimate=before.add(sample_ms), at_s=now_s)

    def mean_ms(self, now_s: float) -> float | None:
        """The mean; None where it is too old or there is none."""
        return self.estimate.mean_ms if self._holds(now_s) else None

    def tail_ms(self, now_s: float, deviations: float) -> float | None:
        """Mean plus some deviations; None where it is too old or there is none."""
        return self.estimate.tail_ms(deviations) if self._holds(now_s) else None

    def _holds(self, now_s: float) -> bool:
        return self.estimate.samples > 0 and now_s - self.at_s < self.holds_s
