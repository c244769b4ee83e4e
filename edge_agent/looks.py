"""Whether a camera's deadline leaves the small model the time that it takes. Pure."""

from pipeline.policies.latency import DurationEstimate
from pipeline.results import Origin

TOLD_AFTER = 20
"""Frames in a row, four seconds at the usual rate: a busy moment is shorter."""
_FEW = 0.1
"""Fewer of the accepted frames than this share are no service."""


class Looks:
    """Counts the frames in a row that were accepted for analysis and could not be analysed in time."""

    def __init__(self) -> None:
        self._analysed, self._accepted = 0, 0
        self._in_vain = 0
        self._told = False
        self._took = DurationEstimate()

    def took(self, edge_ms: float) -> None:
        """Note what a look of the small model took, with its queue, in time or not."""
        self._took = self._took.add(edge_ms)

    def ended(self, origin: Origin) -> bool:
        """Note the end of an accepted frame; True once, when so many in a row were in vain that people should know.

        One that is carried was accepted in vain, also where the cloud was to look first.
        """
        self._accepted += 1
        if origin is Origin.CARRIED:
            self._in_vain += 1
        else:
            self._analysed, self._in_vain = self._analysed + 1, 0
        if self._told or self._in_vain < TOLD_AFTER:
            return False
        self._told = True
        return True

    def remark(self, deadline_ms: float, margin_ms: float) -> str:
        """What stands in the way, for people; empty where looks are in time.

        ``margin_ms`` before its deadline a frame is settled.
        """
        if self._in_vain and (self._in_vain >= TOLD_AFTER or not self._analysed):
            how_many = f"none of the last {self._in_vain}"
        elif self._analysed < _FEW * self._accepted:
            how_many = f"only {self._analysed} of {self._accepted}"
        else:
            return ""
        takes = f", which takes about {self._took.mean_ms:.0f} ms" if self._took.samples else ""
        return (
            f"{how_many} frames could be analysed in time; its deadline of {deadline_ms:g} ms"
            f" leaves the small model {deadline_ms - margin_ms:g} ms{takes}: allow a longer deadline (deadline_ms)"
        )
