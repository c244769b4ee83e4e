"""Whether a camera's deadline leaves the small model the time that it takes. Pure."""

from pipeline.policies.latency import DurationEstimate
from pipeline.results import Origin

TOLD_AFTER = 20
"""Frames in a row, four seconds at the usual rate: a busy moment is shorter."""
_IN_VAIN = frozenset({"edge_late", "detector_busy"})


class Looks:
    """Counts the frames in a row that were accepted for analysis and could not be analysed in time."""

    def __init__(self) -> None:
        self._analysed = False
        self._in_vain = 0
        self._told = False
        self._took = DurationEstimate()

    def took(self, edge_ms: float) -> None:
        """Note what a look of the small model took, with its queue, in time or not."""
        self._took = self._took.add(edge_ms)

    def ended(self, origin: Origin, reason: str) -> bool:
        """Note the end of an accepted frame; True once, when so many in a row were in vain that people should know."""
        if origin is not Origin.CARRIED:
            self._analysed, self._in_vain = True, 0
        elif reason in _IN_VAIN:
            self._in_vain += 1
        if self._told or self._in_vain < TOLD_AFTER:
            return False
        self._told = True
        return True

    def remark(self, deadline_ms: float, margin_ms: float) -> str:
        """What stands in the way, for people; empty where looks are in time.

        ``margin_ms`` before its deadline a frame is settled.
        """
        if self._in_vain < TOLD_AFTER and (self._analysed or not self._in_vain):
            return ""
        takes = f", which takes about {self._took.mean_ms:.0f} ms" if self._took.samples else ""
        return (
            f"none of the last {self._in_vain} frames could be analysed in time; its deadline of {deadline_ms:g} ms"
            f" leaves the small model {deadline_ms - margin_ms:g} ms{takes}: allow a longer deadline (deadline_ms)"
        )
