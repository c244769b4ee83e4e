"""One direction of a network: when what is sent arrives.

A queue in the order of sending, emptied at the rate of the moment; then a delay that varies; then TCP, which repeats
what is lost and hands on nothing out of order. What a window adds that opens slowly and closes after a loss is left
out, and so is TCP's back-off through an outage: what waits goes on at the return
(docs/decisions/007-network-shaper.md).
"""

import math
import random
from dataclasses import dataclass

from pipeline.network.rate import Capacity

SEGMENT_BYTES = 1460
HEADER_BYTES = 40
PACKET_BYTES = SEGMENT_BYTES + HEADER_BYTES
JITTER_HOLDS_S = 0.02
MOST_RECOVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """A direction: its capacity, what it adds, and what it loses.

    ``delay_s`` and ``jitter_s`` are mean and standard deviation of the one-way delay, which is never below 0. ``loss``
    is the share of lost segments; one is sent again after ``recovery_s``, about a round trip, and twice that each
    further time. ``burst_bytes`` may pass at once after a silence.
    """

    capacity: Capacity
    delay_s: float
    jitter_s: float = 0.0
    loss: float = 0.0
    recovery_s: float = 0.0
    burst_bytes: float = 2.0 * PACKET_BYTES

    def __post_init__(self) -> None:
        if min(self.delay_s, self.jitter_s, self.recovery_s, self.burst_bytes) < 0 or not 0 <= self.loss < 1:
            raise ValueError(f"times and bytes are not below 0, and a loss is from 0 to below 1: {self}")


class Epoch:
    """The zero of a link's time: a given moment, else that at which it is first asked for. Two directions share one."""

    __slots__ = ("_at_s",)

    def __init__(self, at_s: float | None = None) -> None:
        self._at_s = at_s

    def since_s(self, now_s: float) -> float:
        """Seconds since then, never below 0."""
        return max(0.0, now_s - self.at_s(now_s))

    def at_s(self, now_s: float) -> float:
        """That moment."""
        if self._at_s is None:
            self._at_s = now_s
        return self._at_s


class Stream:
    """One TCP connection's way over a link, on which nothing overtakes; other streams share the queue alone."""

    __slots__ = ("_arrives_s", "_link")

    def __init__(self, link: "Link") -> None:
        self._link = link
        self._arrives_s = -math.inf

    @property
    def link(self) -> "Link":
        return self._link

    def transmit(self, size_bytes: int, now_s: float) -> float:
        """Send so many bytes; the moment at which the last of them arrives. Raises ValueError on a negative size."""
        self._arrives_s = max(self._arrives_s, self._link._pass(size_bytes, now_s))  # noqa: SLF001 - one unit
        return self._arrives_s


class Link:
    """One direction, used in the order of time. The same settings, seed and traffic give the same arrivals."""

    def __init__(self, settings: LinkSettings, seed: int | str, epoch: Epoch | None = None) -> None:
        self._settings, self._seed = settings, seed
        self._epoch = epoch or Epoch()
        self._position_bytes = 0.0
        self._main = Stream(self)
        self._chances = random.Random(f"{seed}/loss")
        self._until_loss = self._segments_until_loss()
        self._delay = (-1, 0.0)
        self.wire_bytes = 0
        """All that went over the link, with the headers of TCP and IP and what was sent again."""

    def stream(self) -> Stream:
        """A connection of its own over this link."""
        return Stream(self)

    def transmit(self, size_bytes: int, now_s: float) -> float:
        """Send so many bytes on the link's own stream, see ``Stream.transmit``."""
        return self._main.transmit(size_bytes, now_s)

    def waiting_bytes(self, now_s: float) -> float:
        """What has been sent and has not yet passed, headers included."""
        return max(0.0, self._position_bytes - self._settings.capacity.carried_bytes(self._epoch.since_s(now_s)))

    def room_at_s(self, limit_bytes: float, now_s: float) -> float:
        """When no more than ``limit_bytes`` wait, if nothing else is sent."""
        reached_s = self._settings.capacity.reached_s(self._position_bytes - limit_bytes)
        return max(now_s, self._epoch.at_s(now_s) + reached_s)

    def _pass(self, size_bytes: int, now_s: float) -> float:
        """Queue, delay and repeat; arrival without regard to the stream's order."""
        if size_bytes < 0:
            raise ValueError(f"nothing has a size of {size_bytes} bytes")
        capacity, time_s = self._settings.capacity, self._epoch.since_s(now_s)
        segments = max(1, math.ceil(size_bytes / SEGMENT_BYTES))
        wire_bytes = size_bytes + segments * HEADER_BYTES
        begin = max(self._position_bytes, capacity.carried_bytes(time_s) - self._settings.burst_bytes)
        end = self._take(begin, wire_bytes)
        leaves_s = self._leaves_s(end, time_s)
        arrives_s = leaves_s + self._delay_s(leaves_s)
        lost = self._until_loss
        while lost < segments:
            passed = self._leaves_s(min(begin + (lost + 1) * PACKET_BYTES, end), time_s)
            arrives_s = max(arrives_s, self._repeated(passed))
            lost += 1 + self._segments_until_loss()
        self._until_loss = lost - segments
        return self._epoch.at_s(now_s) + arrives_s

    def _take(self, begin: float, wire_bytes: int) -> float:
        self.wire_bytes += wire_bytes
        self._position_bytes = begin + wire_bytes
        return self._position_bytes

    def _leaves_s(self, position_bytes: float, time_s: float) -> float:
        capacity = self._settings.capacity
        return capacity.open_s(max(time_s, capacity.reached_s(position_bytes)))

    def _repeated(self, leaves_s: float) -> float:
        """Arrival of a lost segment: it is sent again until it comes through, and takes its room each time."""
        wait_s = self._settings.recovery_s
        while True:
            self._take(self._position_bytes, PACKET_BYTES)
            leaves_s = self._settings.capacity.open_s(leaves_s + wait_s)
            if self._chances.random() >= self._settings.loss:
                return leaves_s + self._delay_s(leaves_s)
            wait_s = min(2 * wait_s, MOST_RECOVERY_S)

    def _delay_s(self, leaves_s: float) -> float:
        """The one-way delay of a moment, the same for all traffic: drawn anew for each slot of time.

        So neither the size of what is sent nor what went before changes the network that two runs of a seed meet.
        """
        slot = int(leaves_s / JITTER_HOLDS_S)
        if slot != self._delay[0]:
            drawn_s = random.Random(f"{self._seed}/{slot}").gauss(self._settings.delay_s, self._settings.jitter_s)
            self._delay = (slot, max(0.0, drawn_s))
        return self._delay[1]

    def _segments_until_loss(self) -> int:
        """How many segments come through before the next that does not: geometric."""
        loss = self._settings.loss
        if loss == 0:
            return 1 << 62
        return int(math.log(1.0 - self._chances.random()) / math.log1p(-loss))
