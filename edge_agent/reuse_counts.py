"""What saying answers again has come to."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class ReuseCounts:
    """Questions about places that were spared and that were answered, and the milliseconds that took in all.

    Either begins when the question was decided on, and ends with what is known by it. ``most_bits`` and
    ``disagreement`` are how the audits stand now.
    """

    spared: int = 0
    answered: int = 0
    spared_ms: float = 0.0
    answered_ms: float = 0.0
    most_bits: int = 0
    disagreement: float | None = None

    def spare(self, took_ms: float) -> None:
        self.spared, self.spared_ms = self.spared + 1, self.spared_ms + took_ms

    def answer(self, took_ms: float) -> None:
        self.answered, self.answered_ms = self.answered + 1, self.answered_ms + took_ms

    @property
    def hit_ratio(self) -> float | None:
        """The share that was spared; None before the first."""
        count = self.spared + self.answered
        return self.spared / count if count else None

    @property
    def mean_ms(self) -> float | None:
        """The mean latency: h * T_hit + (1 - h) * T_miss of the hit ratio h; None before the first."""
        count = self.spared + self.answered
        return (self.spared_ms + self.answered_ms) / count if count else None

    @classmethod
    def together(cls, parts: Iterable["ReuseCounts"]) -> "ReuseCounts":
        """Those of several cameras."""
        out = cls()
        for part in parts:
            out.spared, out.spared_ms = out.spared + part.spared, out.spared_ms + part.spared_ms
            out.answered, out.answered_ms = out.answered + part.answered, out.answered_ms + part.answered_ms
        return out
