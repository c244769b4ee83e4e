"""How much may be on the way at once: what the way delivers in about one round trip, and little more.

What exceeds it would wait in a socket, where its order is fixed and its age unseen. The window is that of BBR (Cardwell
et al., ACM Queue 2016), the greatest delivery rate seen lately times the least round trip, but for the spare time added
to that. It takes the place of BBR's cycle of gains: it finds out whether there is more.
"""

import math
from dataclasses import dataclass, replace

RATE_MEMORY_S = 2.0
ROUND_TRIP_MEMORY_S = 30.0
FIRST_BYTES = 64_000.0
"""What may be on the way while nothing is known of it."""
LEAST_MESSAGES = 2
"""So many may always be on the way: one after the other, half of a slow link would be idle."""
_MOST_KEPT = 64
_FULL = 0.7
"""With so much of the window on the way, a low rate is the way's own and not for want of something to send."""


@dataclass(frozen=True, slots=True)
class Departure:
    """What to remember of a message until its answer: what had been delivered, and since when the way was busy.

    ``full``: whether the window was; ``followed``: whether as much as itself was on the way before it.
    """

    sent_at_s: float
    delivered_bytes: float
    busy_since_s: float
    full: bool
    followed: bool


@dataclass(frozen=True, slots=True)
class SendWindow:
    """Estimate for one way. ``spare_s`` of the way's time may be on it beyond one round trip.

    ``rates`` and ``round_trips`` are (moment, value) in bytes per second and in seconds, oldest first, of which the
    greatest and the least count.
    """

    spare_s: float = 0.05
    delivered_bytes: float = 0.0
    delivered_at_s: float = -math.inf
    rates: tuple[tuple[float, float], ...] = ()
    round_trips: tuple[tuple[float, float], ...] = ()

    @property
    def rate_bytes_s(self) -> float | None:
        """What the way delivers; None before it has delivered anything."""
        return max(rate for _, rate in self.rates) if self.rates else None

    @property
    def most_bytes(self) -> float:
        """What may be on the way at once."""
        rate_bytes_s = self.rate_bytes_s
        return FIRST_BYTES if rate_bytes_s is None else rate_bytes_s * (self._round_trip_s + self.spare_s)

    def has_room(self, size_bytes: float, unanswered_bytes: float, unanswered: int) -> bool:
        """Whether a message may be sent beside those that are unanswered."""
        return unanswered < LEAST_MESSAGES or unanswered_bytes + size_bytes <= self.most_bytes

    def queued_s(self, unanswered_bytes: float) -> float:
        """How long what is on the way will keep it busy beyond a round trip."""
        rate_bytes_s = self.rate_bytes_s
        return 0.0 if rate_bytes_s is None else max(0.0, unanswered_bytes / rate_bytes_s - self._round_trip_s)

    def departs(self, size_bytes: float, unanswered_bytes: float, now_s: float) -> Departure:
        """What to remember of a message that is sent now, beside those that are unanswered."""
        busy_since_s = self.delivered_at_s if unanswered_bytes > 0 and self.rates else now_s
        full = unanswered_bytes + size_bytes >= _FULL * self.most_bytes
        return Departure(now_s, self.delivered_bytes, busy_since_s, full, unanswered_bytes >= size_bytes)

    def arrived(self, size_bytes: float, departure: Departure, now_s: float) -> "SendWindow":
        """The window after an answer, of whatever kind, in time or late: the message has gone up."""
        delivered_bytes = self.delivered_bytes + size_bytes
        rate = (delivered_bytes - departure.delivered_bytes) / max(now_s - departure.busy_since_s, 1e-3)
        rates, known = self.rates, self.rate_bytes_s
        round_trip_s = max(now_s - departure.sent_at_s, 1e-3)
        if known is None or rate >= known or departure.full or self._queued(round_trip_s, departure):
            rates = (*(each for each in rates[-_MOST_KEPT + 1 :] if each[0] > now_s - RATE_MEMORY_S), (now_s, rate))
        # What is older and higher can never be the least again.
        lower = (t for t in self.round_trips if t[1] < round_trip_s and t[0] > now_s - ROUND_TRIP_MEMORY_S)
        return replace(
            self,
            delivered_bytes=delivered_bytes,
            delivered_at_s=now_s,
            rates=rates,
            round_trips=(*tuple(lower)[: _MOST_KEPT - 1], (now_s, round_trip_s)),
        )

    def _queued(self, round_trip_s: float, departure: Departure) -> bool:
        """Whether a message had to wait for those before it, so that its rate is the way's own."""
        return departure.followed and round_trip_s > self._round_trip_s + self.spare_s

    @property
    def _round_trip_s(self) -> float:
        return min(round_trip_s for _, round_trip_s in self.round_trips)
