"""A way that is down is probed now and then, and used again at the first answer; a busy one is left alone a while."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipeline.policies.breaker import Breaker, Circuit, HoldBack


def missed(times: int, at_s: float = 0.0) -> Breaker:
    breaker = Breaker(misses_to_open=3, probe_every_s=1.0, probes_most=2)
    for _ in range(times):
        breaker = breaker.missed(at_s)
    return breaker


def test_it_opens_after_three_misses_in_a_row() -> None:
    assert [missed(n).circuit for n in range(4)] == [Circuit.CLOSED, Circuit.CLOSED, Circuit.CLOSED, Circuit.OPEN]


def test_an_answer_in_between_starts_the_count_anew() -> None:
    assert missed(2).answered().missed(0.0).missed(0.0).closed


def test_a_link_that_takes_no_more_opens_it_at_once() -> None:
    assert missed(0).opened(5.0).next_probe_s(0) == 5.0


def test_an_open_one_is_probed_at_once_and_then_every_so_often() -> None:
    breaker = missed(3, at_s=10.0)
    assert breaker.next_probe_s(0) == 10.0
    assert breaker.probed(10.0).next_probe_s(1) == 11.0
    assert breaker.probed(10.0).circuit is Circuit.PROBING


def test_there_are_never_more_unanswered_probes_than_may_be() -> None:
    assert missed(3).next_probe_s(2) is None


def test_a_closed_one_is_not_probed() -> None:
    assert missed(2).next_probe_s(0) is None


def test_where_somebody_replied_the_first_probe_waits_its_time() -> None:
    breaker = missed(2, at_s=10.0).refused(10.0)
    assert breaker.next_probe_s(0) == 11.0


def test_an_echo_closes_it_on_trial_and_one_miss_opens_it_again_to_wait() -> None:
    trial = missed(3, at_s=10.0).probed(10.0).echoed()
    assert trial.closed
    again = trial.missed(10.5)
    assert not again.closed
    assert again.next_probe_s(0) == 11.5


def test_an_answer_ends_the_trial() -> None:
    assert missed(3).echoed().answered().missed(1.0).closed


def test_an_echo_that_comes_while_it_is_closed_tells_nothing_new() -> None:
    assert missed(2).echoed() == missed(2)


def test_a_sign_of_life_has_it_probed_at_once() -> None:
    assert missed(3, at_s=10.0).probed(10.0).probe_now(10.2).next_probe_s(0) == 10.2


def test_any_answer_closes_it() -> None:
    for breaker in (missed(3), missed(3).probed(1.0), missed(7)):
        closed = breaker.answered()
        assert closed.closed
        assert closed.misses == 0


@dataclass
class Model:
    """What the breaker is meant to be, told by its history."""

    misses_in_a_row: int = 0
    closed: bool = True
    on_trial: bool = False
    opened_s: list[float] = field(default_factory=list)
    probed_s: list[float] = field(default_factory=list)


class BreakerMachine(RuleBasedStateMachine):
    """Any order of answers, misses, probes and their echoes."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker, self.now_s, self.model = Breaker(misses_to_open=3, probe_every_s=1.0), 0.0, Model()

    @rule(by_s=st.floats(0.0, 3.0))
    def time_passes(self, by_s: float) -> None:
        self.now_s += by_s

    @precondition(lambda self: (self.breaker.next_probe_s(0) or 0.0) <= self.now_s and not self.breaker.closed)
    @rule()
    def probe(self) -> None:
        self.model.probed_s.append(self.now_s)
        self.breaker = self.breaker.probed(self.now_s)

    @rule()
    def echo(self) -> None:
        if not self.model.closed:
            self.model = replace(self.model, closed=True, on_trial=True, misses_in_a_row=0)
        self.breaker = self.breaker.echoed()

    @rule()
    def answer(self) -> None:
        self.breaker = self.breaker.answered()
        self.model = replace(self.model, closed=True, on_trial=False, misses_in_a_row=0)

    @rule(somebody_replied=st.booleans())
    def miss(self, somebody_replied: bool) -> None:
        breaker = self.breaker
        self.breaker = breaker.refused(self.now_s) if somebody_replied else breaker.missed(self.now_s)
        self.model.misses_in_a_row += 1
        if self.model.closed and (self.model.misses_in_a_row >= 3 or self.model.on_trial):
            self.model = replace(self.model, closed=False, on_trial=False, opened_s=[*self.model.opened_s, self.now_s])

    @invariant()
    def it_is_closed_as_its_history_says(self) -> None:
        assert self.breaker.closed == self.model.closed

    @invariant()
    def probes_keep_their_distance_while_it_stays_open(self) -> None:
        since_s = self.model.opened_s[-1] if self.model.opened_s else 0.0
        assert all(b - a >= 1.0 - 1e-9 or b <= since_s for a, b in pairwise(self.model.probed_s) if a > since_s)

    @invariant()
    def it_never_shuts_for_good(self) -> None:
        assert self.breaker.closed or (self.breaker.next_probe_s(0) or 0.0) <= self.now_s + 1.0 + 1e-6


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
