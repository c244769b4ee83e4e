"""How far edge and cloud agree, from frames that both saw as a whole: an audit that no choice of places biases."""

from dataclasses import dataclass

_KEPT = 0.8
"""What an audit still counts when the next one comes."""
_LEAST_AUDITS = 3


@dataclass(frozen=True, slots=True)
class Agreement:
    """Fading counts of boxes: ``same`` found by both, ``edge`` and ``cloud`` by each; ``audits`` frames so far."""

    same: float = 0.0
    edge: float = 0.0
    cloud: float = 0.0
    audits: int = 0

    def add(self, same: int, edge: int, cloud: int) -> "Agreement":
        """The agreement after one more frame on which the edge would have published ``edge`` boxes and the cloud found
        ``cloud``, of which ``same`` are the same objects.
        """
        return Agreement(
            _KEPT * self.same + same, _KEPT * self.edge + edge, _KEPT * self.cloud + cloud, self.audits + 1
        )

    @property
    def f1(self) -> float | None:
        """F1 of the edge's boxes against the cloud's, 1 where both find nothing; None before some audits."""
        if self.audits < _LEAST_AUDITS:
            return None
        total = self.edge + self.cloud
        return 2 * self.same / total if total else 1.0
