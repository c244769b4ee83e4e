"""Who may still answer a request, so that none is lost and none is answered twice, wherever it moves.

Requests under way are asked of one target after the other, or of two at once. The first answer of the last stage ends
a request; one of the first stage stands until then. Whatever comes afterwards is for the tracks alone.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Word(StrEnum):
    """What an answer is for its request."""

    FINAL = "final"  # it ends it
    FIRST = "first"  # it stands until a better one comes
    UNEXPECTED = "unexpected"  # the request has ended, or this target owes it nothing


class Left(StrEnum):
    """How a request stands once a target will not answer it."""

    OPEN = "open"  # somebody may still answer it
    SETTLED = "settled"  # nobody will; its first answer is final now
    NOBODY = "nobody"  # nobody will, and nothing has come: ask elsewhere, or let it fall back


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """How requests ended: ``asked = answered + settled + fell_back + in_flight``, at any moment.

    ``settled`` ended with their first answer, ``fell_back`` with what the device had found.
    """

    asked: int
    answered: int
    settled: int
    fell_back: int
    in_flight: int
    unexpected: int


@dataclass(slots=True)
class _Open:
    until_s: float
    owing: dict[str, int] = field(default_factory=dict)
    first: bool = False


class OpenRequests(Generic[Key]):
    """The requests under way, at most ``most``."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._open: dict[Key, _Open] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, key: Key, until_s: float) -> bool:
        """Open a request that ends at ``until_s`` at the latest. False where it is open, or as many are as may be."""
        if key in self._open or len(self._open) >= self._most:
            return False
        self._open[key] = _Open(until_s)
        self._counts["asked"] += 1
        return True

    def owes(self, key: Key, target: str, stage: int) -> bool:
        """Let a target answer, at stage 1 or 2. False where the request has ended or the target owes it already."""
        request = self._open.get(key)
        if request is None or target in request.owing or (request.first and stage == 1):
            return False
        request.owing[target] = stage
        return True

    def owing(self, key: Key) -> tuple[str, ...]:
        """Who may still answer a request."""
        request = self._open.get(key)
        return () if request is None else tuple(request.owing)

    def owed_by(self, target: str) -> tuple[Key, ...]:
        """What a target may still answer, oldest first."""
        return tuple(key for key, request in self._open.items() if target in request.owing)

    def answered(self, key: Key, target: str, now_s: float) -> Word:
        """A target's answer came. One after the request's time is unexpected, whether or not it was expired yet."""
        request = self._open.get(key)
        if request is None or target not in request.owing or now_s >= request.until_s:
            self._counts["unexpected"] += 1
            return Word.UNEXPECTED
        stage = request.owing.pop(target)
        later = {name: of for name, of in request.owing.items() if of > stage}
        if later:
            request.owing, request.first = later, True
            return Word.FIRST
        self._end(key, "answered")
        return Word.FINAL

    def withdrawn(self, key: Key, target: str) -> Left | None:
        """A target will not answer. None where it owed nothing. Let another one owe it first, where one is asked
        instead: a request that nobody owes any more may be over.
        """
        request = self._open.get(key)
        if request is None or target not in request.owing:
            return None
        del request.owing[target]
        if request.owing:
            return Left.OPEN
        if not request.first:
            return Left.NOBODY
        self._end(key, "settled")
        return Left.SETTLED

    def fall_back(self, key: Key) -> bool:
        """End a request with what there is. False where it has ended."""
        request = self._open.get(key)
        if request is None:
            return False
        self._end(key, "settled" if request.first else "fell_back")
        return True

    def expire(self, now_s: float) -> tuple[Key, ...]:
        """End what has no time left, with what there is; their keys."""
        over = tuple(key for key, request in self._open.items() if now_s >= request.until_s)
        for key in over:
            self.fall_back(key)
        return over

    def counts(self) -> RequestCounts:
        """The account at this moment."""
        c = self._counts
        return RequestCounts(c["asked"], c["answered"], c["settled"], c["fell_back"], len(self._open), c["unexpected"])

    def _end(self, key: Key, how: str) -> None:
        del self._open[key]
        self._counts[how] += 1
