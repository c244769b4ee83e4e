"""How long to wait for an answer of the cloud, and what one is worth that comes late. Pure.

The rule of waiting is that of a hedged request with the edge's own answer as the hedge (Dean and Barroso, "The Tail at
Scale", CACM 2013): past the 95th percentile of recent round trips an answer is unlikely to come in time, and waiting on
only keeps back this frame and those behind it. Decay and age limit of late answers are as in REACT (Ghosh et al., IoTDI
2023), where detections that come late are moved along and lose confidence.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

LATE_WITHIN_S = 2.0
"""An answer that is older than this, counted from the capture of its frame, has no effect any more."""
HALF_LIFE_S = 1.0
"""The confidence of a box that is moved along halves in this time."""
ASK_WITHIN_S = 0.3
"""A frame is young enough to be asked about when the way opens again, though its own result has gone out."""


class Bound(StrEnum):
    """What bounded the wait for an answer; the reason of a result that had to go out without it."""

    DEADLINE = "cloud_late"  # the frame's own
    OVERDUE = "cloud_overdue"  # the 95th percentile of round trips


@dataclass(frozen=True, slots=True)
class WaitSettings:
    """The wait is ``stretch`` times the 95th percentile: measured from few samples, it is itself uncertain. It is never
    shorter than ``least_ms``, below which the noise of timers and threads is larger than the gain.
    """

    stretch: float = 1.5
    least_ms: float = 30.0


@dataclass(frozen=True, slots=True)
class Wait:
    """Until when to wait for an answer (monotonic seconds), and which bound that is."""

    until_s: float
    bound: Bound


def wait(sent_at_s: float, settle_at_s: float, p95_ms: float | None, settings: WaitSettings) -> Wait:
    """The wait for an answer to a question sent at ``sent_at_s``, whose frame must be settled at ``settle_at_s``.

    ``p95_ms`` is that of round trips of such questions; where it is None, nothing recent is known, and the deadline
    alone counts.
    """
    if p95_ms is None:
        return Wait(settle_at_s, Bound.DEADLINE)
    overdue_s = sent_at_s + max(settings.least_ms, settings.stretch * p95_ms) / 1000
    return Wait(overdue_s, Bound.OVERDUE) if overdue_s < settle_at_s else Wait(settle_at_s, Bound.DEADLINE)


def still_useful(age_s: float) -> bool:
    """Whether a late answer may still have an effect."""
    return age_s <= LATE_WITHIN_S


def worth_asking(age_s: float) -> bool:
    """Whether a frame of this age is asked about when the way opens again, instead of waiting for the next one."""
    return age_s <= ASK_WITHIN_S


def decay(age_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factors (n,) on the confidence of boxes that were seen ``age_s`` (n,) ago and moved along since; 1 for age 0."""
    return np.asarray(0.5 ** (np.maximum(0.0, age_s) / HALF_LIFE_S))
