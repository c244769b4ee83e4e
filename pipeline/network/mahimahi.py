"""Traces in the format of Mahimahi: a line per chance to deliver 1,500 bytes, in ms from the beginning.

Source: Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015, section 4 (``mm-link``).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from pipeline.errors import ConfigError

OPPORTUNITY_BYTES = 1500
MOST_FILE_BYTES = 64 * 1024 * 1024
_SAME_S = 1e-6


class DeliveryTrace:
    """A capacity that comes in packets, over and over; a chance that nothing waits for is lost.

    ``moments_ms``: never falling, the first at 0 or later, the last above 0, which is when it begins again. Raises
    ValueError.
    """

    def __init__(self, moments_ms: Sequence[int]) -> None:
        if not moments_ms or moments_ms[0] < 0 or moments_ms[-1] <= 0:
            raise ValueError("a trace has at least one moment, begins at 0 ms or later and ends after that")
        if any(later < earlier for earlier, later in pairwise(moments_ms)):
            raise ValueError("the moments of a trace are in the order of time")
        self._moments_s = [moment / 1000 for moment in moments_ms]
        self._period_s = self._moments_s[-1]

    @property
    def period_s(self) -> float:
        """After this time it begins again."""
        return self._period_s

    def carried_bytes(self, at_s: float) -> float:
        rounds, rest_s = divmod(at_s + _SAME_S, self._period_s)
        chances = int(rounds) * len(self._moments_s) + bisect_right(self._moments_s, rest_s)
        return float(chances * OPPORTUNITY_BYTES)

    def reached_s(self, position_bytes: float) -> float:
        chance = math.ceil(position_bytes / OPPORTUNITY_BYTES - _SAME_S) - 1
        return self._moment_s(chance) if chance >= 0 else 0.0

    def open_s(self, at_s: float) -> float:
        rounds, rest_s = divmod(max(0.0, at_s - _SAME_S), self._period_s)
        chance = int(rounds) * len(self._moments_s) + bisect_left(self._moments_s, rest_s)
        return max(at_s, self._moment_s(chance))

    def _moment_s(self, chance: int) -> float:
        rounds, index = divmod(chance, len(self._moments_s))
        return rounds * self._period_s + self._moments_s[index]


def parse_trace(text: str, name: str) -> DeliveryTrace:
    """Read a trace; ``name`` is what a fault calls it. Raises ConfigError."""
    moments: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry.isascii() or not entry.isdigit():
            raise _wrong(name, f"line {number} is {entry[:40]!r}, not a whole number of milliseconds")
        moments.append(int(entry))
        if len(moments) > 1 and moments[-1] < moments[-2]:
            raise _wrong(name, f"line {number} goes back from {moments[-2]} to {moments[-1]} ms")
    if not moments or moments[-1] == 0:
        raise _wrong(name, "it has no moment after 0 ms")
    return DeliveryTrace(moments)


def read_trace(path: Path) -> DeliveryTrace:
    """Read a trace's file; blocks on the disk. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise _wrong(str(path), f"it cannot be read ({error.strerror})") from error
    if len(data) > MOST_FILE_BYTES:
        raise _wrong(str(path), f"it has more than {MOST_FILE_BYTES} bytes")
    return parse_trace(data.decode("ascii", "replace"), str(path))


def _wrong(name: str, fault: str) -> ConfigError:
    return ConfigError(
        f"The network trace {name} cannot be used: {fault}; name a file in Mahimahi's format, with the moment of one"
        " delivery of 1,500 bytes in ms on each line."
    )
