"""Every admitted frame ends exactly once: ``captured = finals + drops + in flight``, at any moment."""

from collections import Counter
from dataclasses import dataclass

from pipeline.frames import FrameKey
from pipeline.results import DropReason, Origin


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The counts of one camera at one moment."""

    captured: int
    finals: dict[str, int]
    drops: dict[str, int]
    in_flight: int
    invariant_ok: bool


class Ledger:
    """Counts the frames of one camera from capture to their one end."""

    def __init__(self) -> None:
        self._captured = 0
        self._finals: Counter[str] = Counter()
        self._drops: Counter[str] = Counter()
        self._open: set[FrameKey] = set()
        self._violations = 0

    def capture(self, key: FrameKey) -> None:
        """A frame was taken in."""
        if key in self._open:
            self._violations += 1
            return
        self._captured += 1
        self._open.add(key)

    def never_seen(self, count: int, reason: DropReason) -> None:
        """``count`` frames were captured and dropped before they reached this process."""
        self._captured += count
        self._drops[reason.value] += count

    def final(self, key: FrameKey, origin: Origin) -> bool:
        """The frame ended with a result; False (and counted as a violation) when it had ended before."""
        if not self._end(key):
            return False
        self._finals[origin.value] += 1
        return True

    def drop(self, key: FrameKey, reason: DropReason) -> bool:
        """The frame ended without a result; False (and counted as a violation) when it had ended before."""
        if not self._end(key):
            return False
        self._drops[reason.value] += 1
        return True

    def drop_open(self, reason: DropReason) -> int:
        """End every frame still in flight; returns how many there were."""
        count = len(self._open)
        for key in list(self._open):
            self.drop(key, reason)
        return count

    def _end(self, key: FrameKey) -> bool:
        if key not in self._open:
            self._violations += 1
            return False
        self._open.remove(key)
        return True

    def snapshot(self) -> LedgerSnapshot:
        finals, drops = sum(self._finals.values()), sum(self._drops.values())
        balanced = self._captured == finals + drops + len(self._open)
        return LedgerSnapshot(
            self._captured,
            dict(self._finals),
            dict(self._drops),
            len(self._open),
            balanced and self._violations == 0,
        )
