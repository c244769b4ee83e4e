"""How large a change must be to be worth a look: learned from what the looks have shown.

Every look at a frame is evidence: so large was the change, and the frame showed something new or not. Frames are also
looked at when they have hardly changed (at the maximum gap, and a small audited share of the others), so that the
evidence covers what would be left out. Static thresholds do not transfer between cameras, nor from one day to another
(Li et al., Reducto, SIGCOMM 2020, section 3, who learn theirs from pairs of difference and outcome too; here a table
that forgets takes the place of their nearest neighbours).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WorthSettings:
    """A change is worth a look where at least the share ``least_news`` of such looks shows something new.

    The threshold starts at ``start`` (share of the picture that changes) and stays between ``start`` times
    ``least_factor`` and ``most_factor``. ``prior_looks`` of imagined evidence stand for that start; it is what is left
    when evidence is forgotten, which counts half after ``half_life_looks``.
    """

    start: float
    least_news: float = 0.15
    least_factor: float = 0.5
    most_factor: float = 32.0
    prior_looks: float = 2.0
    half_life_looks: float = 300.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """Looks by the size of the change, from the smallest size on, and how many of them have shown something new."""

    looks: tuple[float, ...]
    news: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """The evidence as plain values, for JSON."""
        return {"looks": list(self.looks), "news": list(self.news)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Evidence":
        """The evidence that ``as_dict`` gave. Raises ValueError where it is none."""
        try:
            looks, news = (tuple(float(number) for number in values[name]) for name in ("looks", "news"))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"what its gate has learned cannot be read ({error!r})") from error
        if len(looks) != len(news) or not all(0 <= number < math.inf for number in (*looks, *news)):
            raise ValueError("what its gate has learned has numbers that cannot be")
        return cls(looks, news)


class LearnedWorth:
    """The threshold of one camera and one kind of change."""

    def __init__(self, settings: WorthSettings) -> None:
        self._settings = settings
        octaves = round(float(np.log2(settings.most_factor / settings.least_factor)))
        self._edges = settings.start * settings.least_factor * 2.0 ** np.arange(octaves + 1)
        self._prior_looks = np.full(len(self._edges), settings.prior_looks)
        self._prior_news = np.where(self._edges >= settings.start * (1 - 1e-6), 0.5 * settings.prior_looks, 0.0)
        self._looks, self._news = self._prior_looks.copy(), self._prior_news.copy()
        self.threshold = settings.start

    def learn(self, change: float, *, news: bool) -> None:
        """Take in one look: the share of the picture that had changed, and whether anything new was seen."""
        at = int(np.searchsorted(self._edges, change, side="right")) - 1
        if at < 0:
            return  # below what the threshold can ever be
        keep = 0.5 ** (1 / self._settings.half_life_looks)
        self._looks = self._prior_looks + keep * (self._looks - self._prior_looks)
        self._news = self._prior_news + keep * (self._news - self._prior_news)
        self._looks[at] += 1.0
        self._news[at] += float(news)
        self.threshold = self._decide()

    @property
    def evidence(self) -> "Evidence":
        """What was learned."""
        return Evidence(tuple(self._looks.tolist()), tuple(self._news.tolist()))

    def recall(self, evidence: "Evidence") -> None:
        """Go on from what was learned before, if that was for the same sizes of change."""
        if len(evidence.looks) == len(self._edges):
            self._looks = np.maximum(evidence.looks, self._prior_looks)
            self._news = np.clip(evidence.news, self._prior_news, self._looks)
            self.threshold = self._decide()

    def _decide(self) -> float:
        """The smallest size of change at which looks are worth their while."""
        worth = np.flatnonzero(rising_share(self._news, self._looks) >= self._settings.least_news)
        return float(self._edges[worth[0] if len(worth) else -1])


def rising_share(hits: Array, trials: Array) -> Array:
    """Shares (n,) of hits in trials (both (n,), trials above 0) that rise from bin to bin.

    A larger change is no less likely to show something, so a bin whose share is below that of a smaller one is pooled
    with it: isotonic regression by pool-adjacent-violators (Ayer et al. 1955).
    """
    blocks: list[tuple[float, float, int]] = []
    for hit, trial in zip(hits.tolist(), trials.tolist(), strict=True):
        block = (hit, trial, 1)
        while blocks and blocks[-1][0] * block[1] > block[0] * blocks[-1][1]:
            last = blocks.pop()
            block = (last[0] + block[0], last[1] + block[1], last[2] + block[2])
        blocks.append(block)
    return np.repeat([hit / trial for hit, trial, _ in blocks], [count for _, _, count in blocks])
