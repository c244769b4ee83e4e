"""What learning can be told."""

from dataclasses import dataclass
from typing import Literal

from foveate.training.order import Way

WayWanted = Literal["auto", "own", "adapt"]
"""Which way to a model: as the lessons allow, or always the one."""


@dataclass(frozen=True, slots=True)
class LearnSettings:
    """How cameras learn. ``threads`` is what a training may use beside a live agent, ``time_limit_s`` how long each of
    its ways may take. Every ``retrain_hours`` a camera learns again, and when its lessons have grown by
    ``growth`` times. A model that takes over ``most_ms`` for a look on one thread is not built (None: no such limit).
    """

    enabled: bool = False
    way: WayWanted = "auto"
    threads: int = 1
    time_limit_s: float = 420.0
    retrain_hours: float = 24.0
    growth: float = 2.0
    most_ms: float | None = None
    check_every_s: float = 10.0


def ways(wanted: WayWanted, enough: Way) -> tuple[Way, ...]:
    """The ways to try, in order: the one that the lessons are enough for, then the other; or the wanted one alone."""
    if wanted != "auto":
        return (wanted,)
    return ("own", "adapt") if enough == "own" else ("adapt", "own")
