"""When a frame's answer is final, and which one it is. Pure: values and ``now_s`` in, settlements out.

Frames settle in the order of capture. That costs no deadline: an earlier frame's deadline comes first, so by the time
a later frame must be answered all before it have been.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipeline.frames import FrameKey
from pipeline.geometry import Size
from pipeline.policies.fallback import Bound, Wait
from pipeline.policies.tier_cost import Tier
from pipeline.results import Origin


class Phase(StrEnum):
    """How far a frame has come."""

    CARRIED = "carried"  # will not be analysed
    ANALYSING = "analysing"  # waits for the small model, or is in it
    LOOKED = "looked"  # the small model has answered, or is left out; the larger one has not been asked yet
    ASKED = "asked"  # the question to the larger model is on its way
    SETTLED = "settled"  # nothing better will come


@dataclass(frozen=True, slots=True)
class FrameTimings:
    """Durations in milliseconds, as far as the frame went."""

    wait_ms: float | None = None
    gate_ms: float | None = None
    edge_ms: float | None = None
    encode_ms: float | None = None
    network_ms: float | None = None
    cloud_queue_ms: float | None = None
    cloud_infer_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A frame on its way to its one answer. ``scene_s`` is its time for sampling and tracking, ``wait`` how long its
    answer is waited for once it has been asked about.
    """

    key: FrameKey
    size: Size
    captured_at_s: float
    scene_s: float
    media_ms: float | None
    deadline_s: float
    phase: Phase
    origin: Origin = Origin.CARRIED
    reason: str = ""
    ready_at_s: float | None = None
    timings: FrameTimings = field(default_factory=FrameTimings)
    bytes_up: int = 0
    accepted: bool = False
    """For analysis: the gate has let it through, or has not said yet."""
    wait: Wait | None = None
    edge_model: str | None = None
    cloud_model: str | None = None
    tier: Tier = Tier.DEVICE
    """Whose answer it is."""
    better_to_come: bool = False
    """Another target has been asked for a better answer than the one that is there."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """A frame whose answer goes out now; ``late`` where it had to be settled by the clock."""

    pending: Pending
    late: bool


class Resolver:
    """The frames of one camera that have no answer yet, in order of capture.

    ``margin_s`` before its deadline, or when the wait for its answer is over, a frame is settled with what is there.
    """

    def __init__(self, margin_s: float) -> None:
        self._margin_s = margin_s
        self._frames: deque[FrameKey] = deque()
        self._pending: dict[FrameKey, Pending] = {}

    def __len__(self) -> int:
        return len(self._frames)

    def get(self, key: FrameKey) -> Pending | None:
        return self._pending.get(key)

    @property
    def asking(self) -> bool:
        """Whether a frame waits for the cloud, or may be about to ask."""
        return any(pending.phase in (Phase.LOOKED, Phase.ASKED) for pending in self._pending.values())

    def admit(self, pending: Pending) -> None:
        """Take in a frame; later than all before it."""
        self._frames.append(pending.key)
        self._pending[pending.key] = pending

    def update(self, key: FrameKey, **changes: object) -> bool:
        """Note progress; False when the frame has been settled already."""
        pending = self._pending.get(key)
        if pending is None:
            return False
        self._pending[key] = replace(pending, **changes)  # type: ignore[arg-type] # fields of Pending, checked there
        return True

    def due(self, now_s: float) -> list[Settlement]:
        """Take out the frames whose answer can go out now, in order."""
        out: list[Settlement] = []
        while self._frames:
            pending = self._pending[self._frames[0]]
            if pending.phase in (Phase.CARRIED, Phase.SETTLED):
                out.append(Settlement(pending, late=False))
            elif now_s >= self._settle_at_s(pending):
                out.append(Settlement(_by_the_clock(pending), late=True))
            else:
                break
            del self._pending[self._frames.popleft()]
        return out

    def wake_at_s(self) -> float | None:
        """The moment at which the first frame must be settled; None without frames."""
        if not self._frames:
            return None
        return self._settle_at_s(self._pending[self._frames[0]])

    def _settle_at_s(self, pending: Pending) -> float:
        """When a frame whose turn it is goes out with what is there. While one before it holds it back, it goes on
        waiting for its answer: giving up would win nothing.
        """
        last_s = pending.deadline_s - self._margin_s
        asked = pending.wait if pending.phase is Phase.ASKED else None
        return last_s if asked is None else min(last_s, asked.until_s)


def _by_the_clock(pending: Pending) -> Pending:
    """The answer at the deadline: the edge's, or the tracks' where the small model has not looked, or not in time."""
    origin, reason = Origin.CARRIED, "edge_late"
    if pending.phase is Phase.LOOKED:
        origin, reason = Origin.EDGE_SHED, "not_asked_in_time"
    elif pending.phase is Phase.ASKED:
        bound = Bound.DEADLINE if pending.wait is None else pending.wait.bound
        origin, reason = Origin.EDGE_TIMEOUT, bound.value
    if pending.edge_model is None:
        origin = Origin.CARRIED
    return replace(pending, phase=Phase.SETTLED, origin=origin, reason=reason)
