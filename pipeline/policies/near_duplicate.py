"""Whether a second look may be spared because the same object, looking the same, was looked at a moment ago.

A guess, unlike the exact cache: so it is audited. Some of what could be spared is asked all the same, and where the new
answer contradicts the kept one too often, pictures must be more alike from then on. After Potluck (Guo and Hu, ASPLOS
2018, section 4), whose similarity threshold is tuned by random bypasses, too.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import cv2
import numpy as np

from pipeline.frames import Image

V = TypeVar("V")

HASH_BITS = 64
LEAST_CONTRAST = 4.0
"""Standard deviation in grey levels; the signs of smaller differences are noise."""
LEAST_AUDITS = 50
"""The share of contradictions is taken of at least so many audits: one of a few may be chance."""


def difference_hash(picture: Image) -> int | None:
    """64 bits that tell, for 8 by 8 places of a picture, whether it gets lighter to the right.

    ``picture`` is (height, width, 3) uint8 BGR. None for one without structure, which would be like any other. *Source*
    Krawetz, "Kind of like that", 2013 (dHash).
    """
    grey = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), (9, 8), interpolation=cv2.INTER_AREA)
    if float(np.std(grey)) < LEAST_CONTRAST:
        return None
    return int.from_bytes(np.packbits(grey[:, 1:] > grey[:, :-1]).tobytes(), "big")


@dataclass(frozen=True, slots=True)
class NearDuplicateSettings:
    """How alike two pictures of one track must be, in differing bits of 64, and how that is watched.

    An answer is used again for ``ttl_s`` seconds at most. ``bypass_share`` of what could be spared is asked all the
    same; where over ``most_disagreement`` of that contradicts, ``most_bits`` is halved, and at last nothing is spared.
    """

    most_bits: int = 2
    ttl_s: float = 0.3
    bypass_share: float = 0.05
    most_disagreement: float = 0.02
    audits: int = 200
    tracks: int = 1024


class AskReason(StrEnum):
    """Why a look is not spared."""

    UNKNOWN = "unknown"  # this track was not looked at by this version of the model, or its picture has no structure
    OLD = "old"  # its last look is too long ago
    DIFFERENT = "different"  # it looks different from then
    AUDIT = "audit"  # it could have been spared, and shows whether that would have been right
    DISTRUSTED = "distrusted"  # audits have contradicted even the likest pictures


@dataclass(frozen=True, slots=True)
class Reuse(Generic[V]):
    """Take the kept answer: it is ``age_s`` old, and ``bits`` of the hash differ."""

    answer: V
    bits: int
    age_s: float


@dataclass(frozen=True, slots=True)
class Ask(Generic[V]):
    """Have the model look. ``expected`` is the kept answer that an audit compares with."""

    reason: AskReason
    expected: V | None = None


@dataclass(frozen=True, slots=True)
class _Kept(Generic[V]):
    bits: int
    answer: V
    at_s: float


class NearDuplicates(Generic[V]):
    """What was answered lately, by track; for one version of the model at a time. Bounded in tracks and audits."""

    def __init__(self, settings: NearDuplicateSettings | None = None) -> None:
        self._settings = settings or NearDuplicateSettings()
        self._kept: OrderedDict[Hashable, _Kept[V]] = OrderedDict()
        self._audits: deque[bool] = deque(maxlen=self._settings.audits)
        self._most_bits = self._settings.most_bits
        self._version: str | None = None
        self.reused = 0
        self.asked = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def most_bits(self) -> int:
        """The bits that may differ now; below 0 nothing is spared."""
        return self._most_bits

    @property
    def disagreement(self) -> float | None:
        """The share of recent audits that contradicted, None before the first."""
        return self._audits.count(False) / len(self._audits) if self._audits else None

    def decide(self, track: Hashable, version: str, bits: int | None, draw: float, now_s: float) -> Reuse[V] | Ask[V]:
        """Whether a track must be looked at, by the hash ``bits`` of its picture; ``draw`` is uniform in [0, 1)."""
        self._start(version)
        decision = self._decide(track, bits, draw, now_s)
        if isinstance(decision, Reuse):
            self.reused += 1
        else:
            self.asked += 1
        return decision

    def answered(self, track: Hashable, version: str, bits: int | None, answer: V, now_s: float) -> None:
        """The model has looked. Only this renews an answer, so that small changes cannot add up unseen."""
        self._start(version)
        self._kept.pop(track, None)
        if bits is None:
            return
        self._kept[track] = _Kept(bits, answer, now_s)
        if len(self._kept) > self._settings.tracks:
            self._kept.popitem(last=False)

    def audited(self, version: str, *, agrees: bool) -> None:
        """What the model said where its look could have been spared; of a former version it says nothing."""
        if version != self._version:
            return
        self._audits.append(agrees)
        against = self._audits.count(False)
        if against > self._settings.most_disagreement * max(len(self._audits), LEAST_AUDITS):
            self._most_bits = self._most_bits // 2 if self._most_bits > 0 else -1
            self._audits.clear()

    def _start(self, version: str) -> None:
        """Another version of the model: what the former said, and how far it could be trusted, is of no use."""
        if version != self._version:
            self._version = version
            self._kept.clear()
            self._audits.clear()
            self._most_bits = self._settings.most_bits

    def _decide(self, track: Hashable, bits: int | None, draw: float, now_s: float) -> Reuse[V] | Ask[V]:
        if self._most_bits < 0:
            return Ask(AskReason.DISTRUSTED)
        kept = self._kept.get(track)
        if kept is None or bits is None:
            return Ask(AskReason.UNKNOWN)
        age_s = now_s - kept.at_s
        if age_s >= self._settings.ttl_s:
            return Ask(AskReason.OLD)
        differing = (kept.bits ^ bits).bit_count()
        if differing > self._most_bits:
            return Ask(AskReason.DIFFERENT)
        if draw < self._settings.bypass_share:
            return Ask(AskReason.AUDIT, kept.answer)
        return Reuse(kept.answer, differing, age_s)
