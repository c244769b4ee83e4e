"""What was published lately: what a late answer can still change, and the revisions that follow from it. Bounded."""

from collections import OrderedDict, deque
from dataclasses import dataclass, replace

from edge_agent.questions import NO_WAY
from edge_agent.resolve import Pending
from pipeline.frames import FrameKey
from pipeline.policies.fallback import LATE_WITHIN_S, Bound, still_useful
from pipeline.results import Result

MOST = 64
_UNANSWERED = frozenset({*(bound.value for bound in Bound), "search_late"})


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """An analysed frame as it was settled, its newest result, and when (monotonic) that went out."""

    pending: Pending
    result: Result
    at_s: float


class RecentResults:
    """The frames that a late answer may still be of use for, and those of them that are to be published again."""

    def __init__(self) -> None:
        self._published: OrderedDict[FrameKey, Published] = OrderedDict()
        self._to_revise: deque[Pending] = deque(maxlen=MOST)

    def __len__(self) -> int:
        return len(self._published)

    def add(self, published: Published) -> None:
        """Remember a result; one for the same frame takes its place. What is too old, or too many, is forgotten."""
        self._published[published.pending.key] = published
        while len(self._published) > MOST or published.at_s - self._oldest_s() > LATE_WITHIN_S:
            self._published.popitem(last=False)

    def _oldest_s(self) -> float:
        return next(iter(self._published.values())).at_s

    def get(self, key: FrameKey) -> Published | None:
        return self._published.get(key)

    def useful(self, key: FrameKey, now_s: float, *, patient: bool) -> Published | None:
        """The frame that a late answer is for, while it may have an effect. Its age counts from capture; for a file
        that waits for the cloud, which has no time of its own, from its result.
        """
        published = self._published.get(key)
        if published is None:
            return None
        since_s = published.at_s if patient else published.pending.captured_at_s
        return published if still_useful(now_s - since_s) else None

    def revise(self, pending: Pending) -> None:
        """Have a frame published again; where too many wait, the oldest give way: their results stand."""
        self._to_revise.append(pending)

    def take_revised(self) -> Published | None:
        """The next frame to be published again, as settled now, with its result so far."""
        while self._to_revise:
            pending = self._to_revise.popleft()
            published = self._published.get(pending.key)
            if published is not None:
                return replace(published, pending=pending)
        return None


def open_to_revision(pending: Pending) -> bool:
    """Whether a late answer may still come: the question is out or will be, perhaps once the way opens again; or a
    better one than the answer that is there.
    """
    return pending.better_to_come or pending.reason in _UNANSWERED or pending.reason in NO_WAY
