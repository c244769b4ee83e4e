"""How large a change must be to be worth a look: learned from what the looks have shown.

Every look at a frame is evidence: so large was the change, and the frame showed something new or not. Frames are also
looked at when they have hardly changed (at the maximum gap, and a small audited share of the others), so that the
evidence covers what would be left out. Static thresholds do not transfer between cameras, nor from one day to another
(Li et al., Reducto, SIGCOMM 2020, section 3, who learn theirs from pairs of difference and outcome too; here a table
that forgets takes the place of their nearest neighbours).
"""

from dataclasses import dataclass

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
