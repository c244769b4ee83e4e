"""Whether a question may be spared because what it is about looks as it did when it was last answered.

A guess, unlike the exact cache: so it is audited. Some of what could be spared is asked all the same, and each answer
is held against the one that was kept: how alike is alike enough follows from that. After Potluck (Guo and Hu, ASPLOS
2018, section 4), whose similarity threshold is tuned by random bypasses, too.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, Self, TypeVar

import cv2
import numpy as np

from pipeline.frames import Image

V = TypeVar("V", bound="Answer")

HASH_BITS = 64
LEAST_CONTRAST = 4.0
"""Standard deviation in grey levels; the signs of smaller differences are noise."""
ALONE_FACTOR = 3
"""An answer that the small model does not back needs a picture that is so much more alike."""
LEAST_AUDITS = 50
"""The share of contradictions is taken of at least so many audits: one of a few may be chance."""


def difference_hash(picture: Image) -> int | None:
    """64 bits that tell, for 8 by 8 places of a picture, whether it gets lighter to the right.

    ``picture`` is (height, width, 3) uint8 BGR. None for one without structure, which would be like any other. *Source*
    Krawetz, "Kind of like that", 2013 (dHash).
    """
    grey = cv2.cvtColor(cv2.resize(picture, (9, 8), interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2GRAY)
    if float(np.std(grey)) < LEAST_CONTRAST:
        return None
    return int.from_bytes(np.packbits(grey[:, 1:] > grey[:, :-1]).tobytes(), "big")


@dataclass(frozen=True, slots=True)
class NearDuplicateSettings:
    """How alike two pictures of one place must be, in differing bits of 64, and how that is watched.

    An answer is used again for ``ttl_s`` seconds at most. A share of ``bypass_share`` of the questions is asked in any
    case; no more than ``most_bits`` may differ, and fewer while over ``most_disagreement`` of the last ``audits``
    contradict. So many ``places`` are remembered.
    """

    enabled: bool = False
    most_bits: int = 24
    ttl_s: float = 6.0
    bypass_share: float = 0.05
    most_disagreement: float = 0.02
    audits: int = 200
    places: int = 256


class AskReason(StrEnum):
    """Why a question is not spared."""

    UNKNOWN = "unknown"  # a place was not looked at yet, or its picture has no structure
    OLD = "old"  # the last look at a place is too long ago
    DIFFERENT = "different"  # a place looks different from then
    DISTRUSTED = "distrusted"  # audits have contradicted even the likest pictures
    AUDIT = "audit"  # it could have been spared, and shows whether that would have been right


@dataclass(frozen=True, slots=True)
class Look:
    """A place that a question is about: whose it is, and the hash ``bits`` of how it looks (None: without one).

    ``score`` is the small model's there; 0 where it sees nothing.
    """

    key: Hashable
    bits: int | None
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Reuse(Generic[V]):
    """Take the kept answers, one for each place. The oldest is ``age_s`` old, the least alike ``distance`` bits off."""

    answers: tuple[V, ...]
    distance: int
    age_s: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Have the model look."""

    reason: AskReason


@dataclass(frozen=True, slots=True)
class _Kept(Generic[V]):
    bits: int
    answer: V
    model: str
    at_s: float


@dataclass(frozen=True, slots=True)
class _Audit:
    model: str
    distance: int
    agrees: bool


class Answer(Protocol):
    """What was said of a place."""

    def agrees(self, other: Self, /) -> bool:
        """Whether another answer comes to the same."""
        ...

    def backed(self, score: float, /) -> bool:
        """Whether it is also what the small model thinks, which gives the place this score."""
        ...


class NearDuplicates(Generic[V]):
    """What was answered lately, by place. Bounded in places and audits.

    A ``model`` is a name with its version; an answer is kept for as long as that very one is served.
    """

    def __init__(self, settings: NearDuplicateSettings) -> None:
        self._settings = settings
        self._kept: OrderedDict[Hashable, _Kept[V]] = OrderedDict()
        self._audits: deque[_Audit] = deque(maxlen=self._settings.audits)
        self._limit = self._settings.most_bits
        self.reused = 0
        self.asked: Counter[AskReason] = Counter()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def most_bits(self) -> int:
        """The bits that may differ now; below 0 nothing is spared."""
        return self._limit

    @property
    def disagreement(self) -> float | None:
        """The share of the recent audits within ``most_bits`` that contradicted, None before the first."""
        within = [audit.agrees for audit in self._audits if audit.distance <= self._limit]
        return within.count(False) / len(within) if within else None

    def decide(self, looks: Sequence[Look], served: Collection[str], now_s: float, *, audit: bool) -> Reuse[V] | Ask:
        """Whether a question about some places must be asked; ``served`` are the models that would answer it.

        It is spared where all of them look as they did, unless it was drawn for an ``audit``.
        """
        self._serve(served)
        decision = self._decide(looks, now_s, audit=audit)
        if isinstance(decision, Reuse):
            self.reused += 1
        else:
            self.asked[decision.reason] += 1
        return decision

    def answered(self, look: Look, model: str, answer: V, at_s: float) -> None:
        """The model has looked at a place as it was ``at_s``; what was known of it is audited by that.

        Only this renews an answer, so that small changes cannot add up unseen.
        """
        kept = self._kept.get(look.key)
        if kept is not None:
            if kept.at_s >= at_s:
                return  # a later look was answered sooner
            self._audit(kept, look, model, answer, at_s)
            del self._kept[look.key]
        if look.bits is None:
            return
        self._kept[look.key] = _Kept(look.bits, answer, model, at_s)
        if len(self._kept) > self._settings.places:
            self._kept.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """What was said of a place cannot be said of it again."""
        self._kept.pop(key, None)

    def _audit(self, kept: _Kept[V], look: Look, model: str, answer: V, at_s: float) -> None:
        """Hold an answer against one that could have stood for it."""
        if look.bits is None or model != kept.model or at_s - kept.at_s >= self._settings.ttl_s:
            return
        distance = _distance(kept, look.bits, look.score)
        if distance <= self._settings.most_bits:
            self._audits.append(_Audit(model, distance, kept.answer.agrees(answer)))
            self._limit = self._trusted()

    def _trusted(self) -> int:
        """The most bits that may differ so that few enough audits contradict; -1 where none do so."""
        for bits in range(self._settings.most_bits, -1, -1):
            within = [audit.agrees for audit in self._audits if audit.distance <= bits]
            if within.count(False) <= self._settings.most_disagreement * max(len(within), LEAST_AUDITS):
                return bits
        return -1

    def _serve(self, served: Collection[str]) -> None:
        """What a model said that is not served any more, and how far it could be trusted, is of no use."""
        if any(kept.model not in served for kept in self._kept.values()):
            self._kept = OrderedDict((key, kept) for key, kept in self._kept.items() if kept.model in served)
        if any(audit.model not in served for audit in self._audits):
            self._audits = deque((a for a in self._audits if a.model in served), self._settings.audits)
            self._limit = self._trusted()

    def _decide(self, looks: Sequence[Look], now_s: float, *, audit: bool) -> Reuse[V] | Ask:
        if self._limit < 0:
            return Ask(AskReason.DISTRUSTED)
        if not looks:
            return Ask(AskReason.UNKNOWN)
        answers, farthest, oldest_s = list[V](), 0, now_s
        for look in looks:
            kept = self._kept.get(look.key)
            if kept is None or look.bits is None or kept.at_s > now_s:
                return Ask(AskReason.UNKNOWN)
            if now_s - kept.at_s >= self._settings.ttl_s:
                return Ask(AskReason.OLD)
            distance = _distance(kept, look.bits, look.score)
            if distance > self._limit:
                return Ask(AskReason.DIFFERENT)
            answers.append(kept.answer)
            farthest, oldest_s = max(farthest, distance), min(oldest_s, kept.at_s)
        if audit:
            return Ask(AskReason.AUDIT)
        return Reuse(tuple(answers), farthest, now_s - oldest_s)


def _distance(kept: _Kept[V], bits: int, score: float) -> int:
    """How far a place is from how it looked when it was answered, in bits.

    Where the small model sees the same as what was said, the picture itself need not be as much alike.
    """
    differing = (kept.bits ^ bits).bit_count()
    return differing if kept.answer.backed(score) else ALONE_FACTOR * differing
