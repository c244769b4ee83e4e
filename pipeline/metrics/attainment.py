"""How many of the frames that were accepted for analysis got their answer in time, and from whom."""

from dataclasses import dataclass


@dataclass(slots=True)
class Attainment:
    """Counts of one camera, or of many by ``merge``: frames accepted for analysis, and those answered in time without
    and with the cloud. A frame that was accepted and not analysed after all is no hit.
    """

    accepted: int = 0
    hit_edge: int = 0
    hit_cloud: int = 0

    def add(self, *, in_time: bool, with_cloud: bool) -> None:
        """Count one accepted frame."""
        self.accepted += 1
        self.hit_cloud += in_time and with_cloud
        self.hit_edge += in_time and not with_cloud

    def merge(self, other: "Attainment") -> None:
        """Take in the counts of another one."""
        self.accepted += other.accepted
        self.hit_edge += other.hit_edge
        self.hit_cloud += other.hit_cloud

    @property
    def share(self) -> float | None:
        """In time / accepted; None before the first frame."""
        return (self.hit_edge + self.hit_cloud) / self.accepted if self.accepted else None

    def met(self, target: float) -> bool | None:
        """Whether the share reaches ``target``; None before the first frame."""
        return None if self.share is None else self.share >= target
