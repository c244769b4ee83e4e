"""A way that is down is asked now and then, and used again at the first answer; a busy one is left alone a while."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipeline.policies.breaker import Breaker, Circuit, HoldBack


def missed(times: int, at_s: float = 0.0) -> Breaker:
    breaker = Breaker(misses_to_open=3, probe_every_s=1.0)
    for _ in range(times):
        breaker = breaker.sent(at_s).missed(at_s)
    return breaker


def test_it_opens_after_three_misses_in_a_row() -> None:
    assert [missed(n).circuit for n in range(4)] == [Circuit.CLOSED, Circuit.CLOSED, Circuit.CLOSED, Circuit.OPEN]


def test_an_answer_in_between_starts_the_count_anew() -> None:
    breaker = missed(2).answered().missed(0.0).missed(0.0)
    assert breaker.circuit is Circuit.CLOSED
    assert breaker.allows(0.0)


def test_open_lets_nothing_pass_until_the_probe_is_due() -> None:
    breaker = missed(3, at_s=10.0)
    assert not breaker.allows(10.99)
    assert breaker.allows(11.0)


def test_the_probe_is_alone_on_its_way() -> None:
    probing = missed(3).sent(1.0)
    assert probing.circuit is Circuit.PROBING
    assert not probing.allows(1.5)


def test_a_probe_that_is_missed_opens_again_at_once_and_waits_its_time() -> None:
    again = missed(3).sent(1.0).missed(1.2)
    assert again.circuit is Circuit.OPEN
    assert not again.allows(2.1)
    assert again.allows(2.2)


def test_a_probe_whose_fate_is_never_told_does_not_block_the_next_one() -> None:
    assert missed(3).sent(1.0).allows(2.0)


def test_any_answer_closes_it() -> None:
    for breaker in (missed(3), missed(3).sent(1.0), missed(7)):
        closed = breaker.answered()
        assert closed.circuit is Circuit.CLOSED
        assert closed.misses == 0


@dataclass
class Model:
    """What the breaker is meant to be, told by its history."""

    misses_in_a_row: int = 0
    passed_s: list[float] = field(default_factory=list)


class BreakerMachine(RuleBasedStateMachine):
    """Any order of requests, answers and misses."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker, self.now_s, self.model = Breaker(misses_to_open=3, probe_every_s=1.0), 0.0, Model()

    @rule(by_s=st.floats(0.0, 3.0))
    def time_passes(self, by_s: float) -> None:
        self.now_s += by_s

    @precondition(lambda self: self.breaker.allows(self.now_s))
    @rule()
    def send(self) -> None:
        if self.breaker.circuit is not Circuit.CLOSED:
            self.model.passed_s.append(self.now_s)
        self.breaker = self.breaker.sent(self.now_s)

    @rule()
    def answer(self) -> None:
        self.breaker = self.breaker.answered()
        self.model = Model()

    @rule()
    def miss(self) -> None:
        self.breaker = self.breaker.missed(self.now_s)
        self.model.misses_in_a_row += 1

    @invariant()
    def closed_exactly_below_three_misses_in_a_row(self) -> None:
        assert (self.breaker.circuit is Circuit.CLOSED) == (self.model.misses_in_a_row < 3)

    @invariant()
    def probes_keep_their_distance(self) -> None:
        probes_s = self.model.passed_s
        assert all(b - a >= 1.0 - 1e-9 for a, b in pairwise(probes_s))

    @invariant()
    def it_never_shuts_for_good(self) -> None:
        assert self.breaker.allows(self.now_s + 1.0 + 1e-6)


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.booleans()), max_size=40))
def test_a_busy_worker_is_left_alone_ever_longer_but_never_beyond_the_most(moves: list[tuple[float, bool]]) -> None:
    hold, now_s = HoldBack(first_s=0.05, most_s=2.0), 0.0
    for gap_s, answered in moves:
        now_s += gap_s
        before, held = hold, not hold.allows(now_s)
        hold = hold.answered() if answered else hold.refused(now_s)
        if answered:
            assert hold.allows(now_s)
        elif held:
            assert hold == before
        else:
            assert hold.until_s - now_s == pytest.approx(min(2.0, 2 * before.delay_s or 0.05))
