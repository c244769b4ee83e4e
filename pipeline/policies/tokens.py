"""A token bucket in bytes: the uplink budget."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """``rate_bytes_s`` bytes per second, at most ``burst_bytes`` saved up; ``rate_bytes_s`` None is no limit."""

    rate_bytes_s: float | None
    burst_bytes: float
    level_bytes: float
    at_s: float

    @classmethod
    def full(cls, rate_kbps: float | None, burst_s: float, now_s: float) -> "TokenBucket":
        """A full bucket for a budget in kbit/s that can save up ``burst_s`` seconds."""
        rate = None if rate_kbps is None else rate_kbps * 1000 / 8
        burst = 0.0 if rate is None else rate * burst_s
        return cls(rate, burst, burst, now_s)

    def at(self, now_s: float) -> "TokenBucket":
        """The bucket filled up to ``now_s``."""
        if self.rate_bytes_s is None:
            return self
        level = min(self.burst_bytes, self.level_bytes + self.rate_bytes_s * max(0.0, now_s - self.at_s))
        return replace(self, level_bytes=level, at_s=max(self.at_s, now_s))

    def available_bytes(self) -> float | None:
        """What may go now. None is anything: there is no limit, or the bucket is full and one may exceed its burst."""
        full = self.rate_bytes_s is None or self.level_bytes >= self.burst_bytes
        return None if full else self.level_bytes

    def take(self, size_bytes: float) -> "TokenBucket":
        """The bucket after ``size_bytes``; the level may go below zero when an estimate was too low."""
        if self.rate_bytes_s is None:
            return self
        return replace(self, level_bytes=self.level_bytes - size_bytes)
