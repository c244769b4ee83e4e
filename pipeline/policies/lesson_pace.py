"""How often a whole frame is asked about for the sake of lessons alone."""

from dataclasses import dataclass

RICH = 600
"""Lessons from which on further ones are worth less."""
LONGEST_S = 60.0
IDLE_FILL = 0.9
"""The budget for bytes is idle while it is as full as this."""


@dataclass(frozen=True, slots=True)
class PaceView:
    """What is known when a frame could be asked about.

    ``since_s`` is how long ago the last one was (None: never), ``lessons`` are kept. ``fill`` is how full the camera's
    budget is, as a share, and ``rate_bytes_s`` what flows into it (None: no limit); a frame takes ``frame_bytes``.
    """

    since_s: float | None
    lessons: int
    fill: float | None = None
    rate_bytes_s: float | None = None
    frame_bytes: float = 0.0


def look_hindrance(view: PaceView, most_per_minute: float, uplink_share: float) -> str:
    """Why no frame is asked about now; empty where one is.

    The richer the store, the rarer: from ``RICH`` lessons on the time between two grows with them. Frames take at most
    ``uplink_share`` of the budget, and only what nobody else wants of it.
    """
    if most_per_minute <= 0:
        return "none are wanted"
    if view.fill is not None and view.fill < IDLE_FILL:
        return "the uplink is in use"
    least_s = min(LONGEST_S, 60.0 / most_per_minute * max(1.0, view.lessons / RICH))
    if view.rate_bytes_s is not None:
        if uplink_share <= 0 or view.rate_bytes_s <= 0:
            return "there is no uplink for them"
        least_s = max(least_s, view.frame_bytes / (uplink_share * view.rate_bytes_s))
    return "one was asked about lately" if view.since_s is not None and view.since_s < least_s else ""
