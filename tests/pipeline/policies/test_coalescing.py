"""Identical questions are worked on once; whoever asked has one end, and nobody else's bad luck."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from pipeline.policies.coalescing import Coalescing, End, Role


def asked(*deadlines_s: float, most: int = 10) -> Coalescing[str, int]:
    """Waiters 0, 1, ... of these deadlines ask the same before anything has begun."""
    flights: Coalescing[str, int] = Coalescing(most)
    for waiter, deadline_s in enumerate(deadlines_s):
        flights.enter("k", waiter, deadline_s, flights.role("k", deadline_s, under_way=False))
    return flights


def test_the_first_leads_and_the_next_follow_and_share_its_end() -> None:
    flights = asked(1.0, 2.0, 1.5)
    settled = flights.ended("k", End.FOR_ALL)
    assert (settled.with_it, settled.next_leader) == ((2, 1), None)
    assert (len(flights), flights.following) == (0, 0)


def test_the_more_urgent_takes_over_unless_the_work_has_begun() -> None:
    flights = asked(2.0)
    assert flights.role("k", 1.0, under_way=True) is Role.FOLLOWS
    assert flights.role("k", 1.0, under_way=False) is Role.TAKES_OVER
    flights.enter("k", 1, 1.0, Role.TAKES_OVER)
    assert flights.leader("k") == 1
    assert flights.ended("k", End.FOR_ITSELF).next_leader == 0, "whoever was overtaken still waits"


def test_a_leader_whose_own_time_is_up_hands_over_to_the_next_by_deadline() -> None:
    flights = asked(1.0, 3.0, 2.0)
    assert [flights.ended("k", End.FOR_ITSELF).next_leader for _ in range(3)] == [2, 1, None]


def test_a_failure_is_tried_once_more_and_then_told_to_all() -> None:
    flights = asked(1.0, 2.0, 3.0, 4.0)
    first = flights.ended("k", End.FAILED)
    assert (first.with_it, first.next_leader) == ((), 1)
    second = flights.ended("k", End.FAILED)
    assert (second.with_it, second.next_leader) == ((2, 3), None)


def test_as_many_follow_as_may_and_a_new_question_still_leads() -> None:
    flights = asked(1.0, 2.0, 3.0, most=2)
    assert flights.role("k", 0.5, under_way=False) is Role.NO_ROOM
    assert flights.role("other", 0.5, under_way=False) is Role.LEADS


def test_a_follower_that_withdraws_gets_nothing() -> None:
    flights = asked(1.0, 2.0, 3.0)
    assert flights.withdraw("k", 1)
    assert not flights.withdraw("k", 1)
    assert not flights.withdraw("k", 0), "it leads"
    assert flights.ended("k", End.FOR_ALL).with_it == (2,)


def test_a_role_that_there_is_not_is_refused() -> None:
    flights = asked(1.0)
    with pytest.raises(ValueError, match="leads"):
        flights.enter("k", 1, 1.0, Role.LEADS)
    with pytest.raises(ValueError, match="follows"):
        flights.enter("other", 1, 1.0, Role.FOLLOWS)


class Asking(RuleBasedStateMachine):
    """Whatever happens, each who asked has exactly one end, and one leads while anybody waits."""

    waiters = Bundle("waiters")

    def __init__(self) -> None:
        super().__init__()
        self.flights: Coalescing[str, int] = Coalescing(6)
        self.waiting: dict[int, tuple[str, float]] = {}
        self.ends: Counter[int] = Counter()
        self.asked = 0

    @rule(target=waiters, key=st.sampled_from("ab"), deadline_s=st.floats(0, 9), under_way=st.booleans())
    def ask(self, key: str, deadline_s: float, under_way: bool) -> tuple[str, int]:
        role = self.flights.role(key, deadline_s, under_way=under_way)
        if role is Role.NO_ROOM:
            assert self.flights.following == 6
            return key, -1
        number, self.asked = self.asked, self.asked + 1
        self.flights.enter(key, number, deadline_s, role)
        self.waiting[number] = key, deadline_s
        return key, number

    @rule(key=st.sampled_from("ab"), end=st.sampled_from(list(End)))
    def end(self, key: str, end: End) -> None:
        leader = self.flights.leader(key)
        if leader is None:
            return
        settled = self.flights.ended(key, end)
        for number in (leader, *settled.with_it):
            self.ends[number] += 1
            del self.waiting[number]
        if end is End.FOR_ALL:
            assert settled.next_leader is None
        others = [deadline_s for asked, deadline_s in self.waiting.values() if asked == key]
        assert (settled.next_leader is None) == (not others)
        if settled.next_leader is not None:
            assert self.waiting[settled.next_leader][1] == min(others)

    @rule(who=consumes(waiters))
    def withdraw(self, who: tuple[str, int]) -> None:
        key, number = who
        follows = number in self.waiting and self.flights.leader(key) != number
        assert self.flights.withdraw(key, number) == follows
        if follows:
            self.ends[number] += 1
            del self.waiting[number]

    @invariant()
    def one_leads_while_anybody_waits(self) -> None:
        asked = {key for key, _ in self.waiting.values()}
        assert {key for key in "ab" if self.flights.leader(key) is not None} == asked
        assert len(self.flights) == len(asked)
        assert self.flights.following == len(self.waiting) - len(asked) <= 6
        assert set(self.ends.values()) <= {1}

    @invariant()
    def those_who_follow_are_known_by_their_deadlines(self) -> None:
        found = [(key, self.waiting[number][1]) for key, number in self.flights.followers()]
        assert [deadline_s for _, deadline_s in found] == sorted(deadline_s for _, deadline_s in found)
        leaders = {self.flights.leader(key) for key in "ab"}
        assert Counter(found) == Counter(each for number, each in self.waiting.items() if number not in leaders)


TestAsking = Asking.TestCase
TestAsking.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
