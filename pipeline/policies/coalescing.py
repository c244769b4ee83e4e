"""Identical questions under way are worked on once: who leads, who follows, and who takes over when that fails.

As singleflight does in Go (golang.org/x/sync), with two differences: those who ask have deadlines of their own, so the
most urgent one leads; and what befalls the leader alone befalls nobody else.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
W = TypeVar("W", bound=Hashable)


class Role(StrEnum):
    """What somebody who asks is to do."""

    LEADS = "leads"  # nobody else has asked: queue it
    TAKES_OVER = "takes_over"  # it is more urgent than the leader, whose place in the queue it takes
    FOLLOWS = "follows"  # it gets the answer of the leader
    NO_ROOM = "no_room"  # as many follow as may


class End(StrEnum):
    """How it ended for a leader."""

    FOR_ALL = "for_all"  # an answer, or a refusal for what all have in common
    FAILED = "failed"  # the work failed: once more for another, and then for nobody
    FOR_ITSELF = "for_itself"  # its time was up, or it was withdrawn: the others still wait


@dataclass(frozen=True, slots=True)
class Settled(Generic[W]):
    """Who shares the leader's end, in the order of their deadlines; and who leads now, None where nobody waits."""

    with_it: tuple[W, ...]
    next_leader: W | None


@dataclass(slots=True)
class _Flight(Generic[W]):
    leader: W
    deadline_s: float
    followers: list[tuple[float, int, W]] = field(default_factory=list)
    failed_before: bool = False


class Coalescing(Generic[K, W]):
    """Who waits for what. Bounded: at most ``most_followers`` at a time in all; leaders are bounded by their queue.

    A question is known by its key from ``enter`` to the end of the last who asked it.
    """

    def __init__(self, most_followers: int) -> None:
        self._most_followers = most_followers
        self._flights: dict[K, _Flight[W]] = {}
        self._following = 0
        self._joined = 0

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def following(self) -> int:
        """How many follow at this moment."""
        return self._following

    def leader(self, key: K) -> W | None:
        """Who leads, None where nobody asks."""
        flight = self._flights.get(key)
        return None if flight is None else flight.leader

    def followers(self) -> list[tuple[K, W]]:
        """Who follows whatever question, in the order of their deadlines."""
        every = [
            (deadline_s, joined, key, waiter)
            for key, flight in self._flights.items()
            for deadline_s, joined, waiter in flight.followers
        ]
        return [each[2:] for each in sorted(every, key=lambda each: each[:2])]

    def role(self, key: K, deadline_s: float, *, under_way: bool) -> Role:
        """What a newcomer is to do; ``under_way``: the leader's work has begun. Nothing changes before ``enter``."""
        flight = self._flights.get(key)
        if flight is None:
            return Role.LEADS
        if self._following >= self._most_followers:
            return Role.NO_ROOM
        return Role.TAKES_OVER if not under_way and deadline_s < flight.deadline_s else Role.FOLLOWS

    def enter(self, key: K, waiter: W, deadline_s: float, role: Role) -> None:
        """A newcomer has taken its role. Raises ValueError for one that there is not."""
        flight = self._flights.get(key)
        if (flight is None) != (role is Role.LEADS) or role is Role.NO_ROOM:
            raise ValueError(f"nobody can be {role} here")
        if flight is None:
            self._flights[key] = _Flight(waiter, deadline_s)
            return
        if role is Role.TAKES_OVER:
            waiter, flight.leader = flight.leader, waiter
            deadline_s, flight.deadline_s = flight.deadline_s, deadline_s
        self._joined += 1
        self._following += 1
        flight.followers.append((deadline_s, self._joined, waiter))
        flight.followers.sort(key=lambda each: each[:2])

    def ended(self, key: K, end: End) -> Settled[W]:
        """The leader has its end. Raises KeyError where nobody leads."""
        flight = self._flights[key]
        shared = end is End.FOR_ALL or (end is End.FAILED and flight.failed_before)
        if shared or not flight.followers:
            del self._flights[key]
            self._following -= len(flight.followers)
            return Settled(tuple(waiter for _, _, waiter in flight.followers), None)
        flight.failed_before |= end is End.FAILED
        flight.deadline_s, _, flight.leader = flight.followers.pop(0)
        self._following -= 1
        return Settled((), flight.leader)

    def withdraw(self, key: K, waiter: W) -> bool:
        """A follower waits no more; False where it does not follow."""
        flight = self._flights.get(key)
        left = [each for each in flight.followers if each[2] != waiter] if flight else []
        if flight is None or len(left) == len(flight.followers):
            return False
        flight.followers = left
        self._following -= 1
        return True
