"""The ways between edge nodes and workers."""

from dataclasses import dataclass
from typing import Protocol


class Road(Protocol):
    """One direction of a link, used in the order of time."""

    def transmit(self, size_bytes: int, now_s: float) -> float:
        """Take in bytes; returns when the last of them has arrived."""
        ...

    def waiting_bytes(self, now_s: float) -> float:
        """What has been taken in and has not passed yet."""
        ...


@dataclass(frozen=True, slots=True)
class Hop:
    """A way that only takes its time."""

    delay_s: float
    road: Road | None = None

    def transmit(self, size_bytes: int, now_s: float) -> float:
        return self.delay_s + (now_s if self.road is None else self.road.transmit(size_bytes, now_s))

    def waiting_bytes(self, now_s: float) -> float:
        return 0.0 if self.road is None else self.road.waiting_bytes(now_s)
