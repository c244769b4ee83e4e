"""Keeping back from the way to the cloud: a circuit breaker where it is down, a pause where it is busy."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Circuit(StrEnum):
    """State of the breaker."""

    CLOSED = "closed"  # requests pass
    OPEN = "open"  # requests are not sent
    PROBING = "probing"  # one request is on its way to see


@dataclass(frozen=True, slots=True)
class Breaker:
    """Opens after ``misses_to_open`` misses in a row; then lets one probe pass every ``probe_every_s``."""

    misses_to_open: int = 3
    probe_every_s: float = 1.0
    circuit: Circuit = Circuit.CLOSED
    misses: int = 0
    since_s: float = 0.0

    def allows(self, now_s: float) -> bool:
        """Whether a request may be sent now."""
        if self.circuit is Circuit.CLOSED:
            return True
        return now_s - self.since_s >= self.probe_every_s

    def sent(self, now_s: float) -> "Breaker":
        """The breaker after a request was sent; while not closed, that request is the probe."""
        if self.circuit is Circuit.CLOSED:
            return self
        return replace(self, circuit=Circuit.PROBING, since_s=now_s)

    def answered(self) -> "Breaker":
        """The breaker after an answer came, in time or late: the way is open."""
        return replace(self, circuit=Circuit.CLOSED, misses=0)

    def missed(self, now_s: float) -> "Breaker":
        """The breaker after no answer came by the deadline, or the way was down."""
        misses = self.misses + 1
        if self.circuit is Circuit.CLOSED and misses < self.misses_to_open:
            return replace(self, misses=misses)
        return replace(self, circuit=Circuit.OPEN, misses=misses, since_s=now_s)


@dataclass(frozen=True, slots=True)
class HoldBack:
    """How long a camera asks nothing after a worker was too busy for it: ``first_s``, doubling up to ``most_s``."""

    first_s: float = 0.05
    most_s: float = 2.0
    delay_s: float = 0.0
    until_s: float = float("-inf")

    def allows(self, now_s: float) -> bool:
        """Whether a request may be sent now."""
        return now_s >= self.until_s

    def refused(self, now_s: float) -> "HoldBack":
        """The state after a refusal; one that comes while holding back already tells nothing new."""
        if not self.allows(now_s):
            return self
        delay_s = min(self.most_s, max(self.first_s, 2 * self.delay_s))
        return replace(self, delay_s=delay_s, until_s=now_s + delay_s)

    def answered(self) -> "HoldBack":
        """The state after an answer: there is room."""
        return replace(self, delay_s=0.0, until_s=float("-inf"))
