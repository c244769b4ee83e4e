"""How a run fared as time went by, and how long a disturbance was felt. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from foveate.load.outcomes import End, Outcome

WINDOW_S = 0.5


@dataclass(frozen=True, slots=True)
class Window:
    """Requests whose moment lies in ``[from_s, from_s + length)``, and those answered in time."""

    from_s: float
    offered: int
    in_time: int

    @property
    def hit_ratio(self) -> float:
        """1 where nothing was asked."""
        return self.in_time / self.offered if self.offered else 1.0


def hit_windows(outcomes: Sequence[Outcome], duration_s: float, length_s: float = WINDOW_S) -> list[Window]:
    """The windows of a run, from its beginning; the last one may be cut short by its end."""
    count = max(1, -int(-duration_s // length_s))
    offered, in_time = [0] * count, [0] * count
    for each in outcomes:
        at = min(int(each.arrival.at_s / length_s), count - 1)
        offered[at] += 1
        in_time[at] += each.in_time
    return [Window(at * length_s, offered[at], in_time[at]) for at in range(count)]


def recovery_s(windows: Sequence[Window], struck_s: float, deadline_s: float) -> float:
    """How long after ``struck_s`` the hit ratio was below what it was before: up to the end of the last such window.

    What it was before is the worst window that was over ``deadline_s`` earlier, so that what the load does by itself is
    no disturbance, and what was still under way at the blow is none of the usual. 0 where none was below. Raises
    ValueError where nothing came before or after.
    """
    length_s = windows[1].from_s - windows[0].from_s if len(windows) > 1 else WINDOW_S
    before = [each for each in windows if each.from_s + length_s <= struck_s - deadline_s]
    after = [each for each in windows if each.from_s + length_s > struck_s]
    if not before or not after:
        raise ValueError(f"a disturbance at {struck_s} s needs whole windows before it and some after")
    usual = min(each.hit_ratio for each in before)
    disturbed = [each.from_s + length_s - struck_s for each in after if each.hit_ratio < usual]
    return max(disturbed, default=0.0)


def unheard(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those whose sender had, at the deadline, neither an answer nor a refusal, and gave them up."""
    return [
        each
        for each in outcomes
        if each.end is End.UNANSWERED
        or (
            each.end in {End.ANSWERED, End.REFUSED}
            and (each.ended_s or 0.0) - each.arrival.at_s > each.arrival.deadline_s
        )
    ]
