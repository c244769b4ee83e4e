"""A circuit breaker for the way to the cloud: after some misses in a row, ask only now and then."""

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
