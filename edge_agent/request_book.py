"""Which targets a request was asked of, who may still answer it, and what its answers lack so far."""

from dataclasses import dataclass, field

from edge_agent.questions import Question
from pipeline.frames import FrameKey
from pipeline.policies.open_requests import Left, OpenRequests, RequestCounts, Word


@dataclass(slots=True)
class _Asked:
    stands: float | None
    targets: set[str] = field(default_factory=set)


class RequestBook:
    """The account of the requests under way (``open_requests``), and what a move needs to know of each; bounded."""

    def __init__(self) -> None:
        self._open: OpenRequests[FrameKey] = OpenRequests()
        self._asked: dict[FrameKey, _Asked] = {}

    def open(self, question: Question) -> bool:
        """Begin with a request; False where it is under way, or as many are as may be."""
        if not self._open.ask(question.key, question.settle_at_s):
            return False
        self._asked[question.key] = _Asked(question.stands)
        return True

    def owes(self, question: Question, target: str) -> bool:
        """Let a target answer, at the question's stage. False where it was asked before, or the request has ended."""
        asked = self._asked.get(question.key)
        if asked is None or target in asked.targets or not self._open.owes(question.key, target, question.stage):
            return False
        asked.targets.add(target)
        return True

    def is_owed(self, key: FrameKey, target: str) -> bool:
        """Whether a target may still answer a request."""
        return target in self._open.owing(key)

    def tried(self, key: FrameKey) -> frozenset[str]:
        """Whom a request under way was asked of."""
        asked = self._asked.get(key)
        return frozenset() if asked is None else frozenset(asked.targets)

    def stands(self, key: FrameKey) -> float | None:
        """The shortfall of the answer that a request under way has; None where it has none."""
        asked = self._asked.get(key)
        return None if asked is None else asked.stands

    def answered(self, key: FrameKey, target: str, shortfall: float, now_s: float) -> Word:
        """An answer came, which lacks so much."""
        word = self._open.answered(key, target, now_s)
        if word is Word.FIRST:
            self._asked[key].stands = shortfall
        elif word is Word.FINAL:
            del self._asked[key]
        return word

    def withdrawn(self, key: FrameKey, target: str) -> Left | None:
        """A target will not answer; a request of which nobody will has ended with that."""
        left = self._open.withdrawn(key, target)
        if left is Left.NOBODY:
            self._open.fall_back(key)
        if left in (Left.NOBODY, Left.SETTLED):
            del self._asked[key]
        return left

    def fall_back(self, key: FrameKey) -> None:
        """End a request that nobody was asked."""
        if self._open.fall_back(key):
            del self._asked[key]

    def expire(self, now_s: float) -> None:
        """End what has no time left."""
        for key in self._open.expire(now_s):
            del self._asked[key]

    def counts(self) -> RequestCounts:
        """How requests have ended."""
        return self._open.counts()
