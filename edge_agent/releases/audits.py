"""Frames at which several models look, and the larger one: what is compared, and no more than a few at a time."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from edge_agent.region_of_interest import RegionOfInterest
from edge_agent.releases.slot import Staged
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey

MOST_OPEN = 4
"""Of a camera; each holds a picture. The oldest one gives way."""
AUDIT_EPOCH = 1
"""No run's: a worker answers each key once, and an audit's frame may have been asked about before."""


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """One model's look at a frame: what it found, in frame pixels, and what the look took."""

    staged: Staged
    found: Detections
    took_ms: float


@dataclass(slots=True, eq=False)
class Audit:
    """One frame, the looks at it so far, and the larger model's answer (None: not there yet).

    ``asked`` is False where only the looks are compared with one another. ``paired``: what they took has been counted.
    """

    key: FrameKey
    frame: Frame
    region: RegionOfInterest
    asked: bool
    sights: dict[Staged, Sight] = field(default_factory=dict)
    teacher: Detections | None = None
    paired: bool = False

    def missing(self, wanted: Sequence[Staged]) -> Staged | None:
        """The first of these models that has not looked yet."""
        return next((staged for staged in wanted if staged not in self.sights), None)


class Audits:
    """The open audits of one camera."""

    def __init__(self) -> None:
        self._open: OrderedDict[FrameKey, Audit] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: FrameKey) -> bool:
        return key in self._open

    def add(self, audit: Audit) -> None:
        """Begin an audit; of too many the oldest is given up."""
        self._open[audit.key] = audit
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def heard(self, key: FrameKey, teacher: Detections) -> Audit | None:
        """The audit that the larger model has answered; None where the frame is none's, or has its answer."""
        audit = self._open.get(key)
        if audit is None or audit.teacher is not None:
            return None
        audit.teacher = teacher
        return audit

    def drop(self, key: FrameKey) -> None:
        """End an audit, if it is open."""
        self._open.pop(key, None)

    def clear(self) -> None:
        """End all of them: the models have changed."""
        self._open.clear()

    def unseen(self, wanted: Sequence[Staged]) -> tuple[Audit, Staged] | None:
        """The newest audit that lacks a look, and whose."""
        for audit in reversed(self._open.values()):
            staged = audit.missing(wanted)
            if staged is not None:
                return audit, staged
        return None
