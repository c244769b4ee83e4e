"""Keeping back from the way to the cloud: a circuit breaker where it is down, a pause where it is busy."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Circuit(StrEnum):
    """State of the breaker."""

    CLOSED = "closed"  # requests pass
    OPEN = "open"  # requests are not sent
    PROBING = "probing"  # the same, and an echo probe is on its way


@dataclass(frozen=True, slots=True)
class Breaker:
    """Keeps requests from a way that is down, and finds out by small echo probes when it is up again.

    It opens after ``misses_to_open`` misses in a row, or at once where the link takes no more. From then on a probe is
    due at once and every ``probe_every_s``, never more than ``probes_most`` of them unanswered. An echo closes it, on
    trial: it shows that the way is open and not that the model answers, so one miss is enough to open it again. Then,
    and wherever somebody did reply, the way was open all along, and the first probe waits its time.
    """

    misses_to_open: int = 3
    probe_every_s: float = 1.0
    probes_most: int = 3
    circuit: Circuit = Circuit.CLOSED
    misses: int = 0
    on_trial: bool = False
    probe_at_s: float = float("-inf")

    @property
    def closed(self) -> bool:
        """Whether requests may be sent."""
        return self.circuit is Circuit.CLOSED

    def next_probe_s(self, unanswered: int) -> float | None:
        """When the next probe is due; None where none is, or where ``unanswered`` ones are as many as may be."""
        return None if self.closed or unanswered >= self.probes_most else self.probe_at_s

    def probed(self, now_s: float) -> "Breaker":
        """The breaker after a probe was sent."""
        return self if self.closed else replace(self, circuit=Circuit.PROBING, probe_at_s=now_s + self.probe_every_s)

    def probe_now(self, now_s: float) -> "Breaker":
        """The breaker after something else changed on the way: worth a look at once."""
        return replace(self, probe_at_s=min(self.probe_at_s, now_s))

    def echoed(self) -> "Breaker":
        """The breaker after a probe came back."""
        return self if self.closed else replace(self, circuit=Circuit.CLOSED, misses=0, on_trial=True)

    def answered(self) -> "Breaker":
        """The breaker after an answer came, in time or late: the way is open, and somebody answers."""
        return replace(self, circuit=Circuit.CLOSED, misses=0, on_trial=False)

    def missed(self, now_s: float) -> "Breaker":
        """The breaker after no answer came by the deadline."""
        return self._failed(now_s, 0.0)

    def refused(self, now_s: float) -> "Breaker":
        """The breaker after a reply that is of no use, or says that there will be no answer."""
        return self._failed(now_s, self.probe_every_s)

    def _failed(self, now_s: float, wait_s: float) -> "Breaker":
        misses = self.misses + 1
        if self.closed and (misses >= self.misses_to_open or self.on_trial):
            return replace(self.opened(now_s, wait_s), misses=misses)
        return replace(self, misses=misses)

    def opened(self, now_s: float, wait_s: float = 0.0) -> "Breaker":
        """The breaker after the link would take no more: what is sent now would be old when it arrives."""
        if not self.closed:
            return self
        wait_s = self.probe_every_s if self.on_trial else wait_s
        return replace(self, circuit=Circuit.OPEN, on_trial=False, probe_at_s=now_s + wait_s)


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
