"""Who gives way when a queue is full and somebody comes who holds less of it than others."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from pipeline.policies.admission import AdmissionBounds


@dataclass(frozen=True, slots=True)
class Held:
    """One thing that is queued, whose it is, and the memory that it takes."""

    owner: Hashable
    size_bytes: int


def makes_room(held: Sequence[Held], newcomer: Held, bounds: AdmissionBounds) -> list[int] | None:
    """The places in ``held`` that give way to a newcomer, or None where it has no right to room.

    ``held`` is in the order of service. As in the buffers of fair queueing (McKenney, "Stochastic fairness queueing",
    INFOCOM 1990), room is taken from whoever holds most, its last thing first, and only while it holds more than the
    newcomer's owner would. What somebody holds is the larger of its shares of the two bounds (dominant share, Ghodsi et
    al., NSDI 2011). So nobody loses anything while it has no more than an equal share.
    """
    counts: defaultdict[Hashable, int] = defaultdict(int)
    sizes: defaultdict[Hashable, int] = defaultdict(int)
    for each in (*held, newcomer):
        counts[each.owner] += 1
        sizes[each.owner] += each.size_bytes

    def share(owner: Hashable) -> float:
        return max(counts[owner] / bounds.capacity, sizes[owner] / bounds.capacity_bytes)

    left = list(range(len(held)))
    gone: list[int] = []
    while sum(counts.values()) > bounds.capacity or sum(sizes.values()) > bounds.capacity_bytes:
        most = max(counts, key=share)
        if share(most) <= share(newcomer.owner):
            return None
        last = next(place for place in reversed(left) if held[place].owner == most)
        left.remove(last)
        gone.append(last)
        counts[most] -= 1
        sizes[most] -= held[last].size_bytes
    return gone
