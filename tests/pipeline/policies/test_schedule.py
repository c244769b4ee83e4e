"""Scheduling: nothing hopeless is kept, deadlines rule the order, and no flow starves."""

from collections import Counter
from collections.abc import Hashable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.agenda import Agenda
from pipeline.policies.schedule import (
    SCHEDULING_KINDS,
    Accounts,
    Drop,
    DropReason,
    Service,
    Ticket,
    WeightedEarliestDeadline,
)

POLICY = WeightedEarliestDeadline()
EACH_S = 0.016


def service(free_s: float = 0.0, each_s: float = EACH_S) -> Service:
    return Service(free_s, lambda _kind, count: count * each_s, lambda _kind: each_s)


UNKNOWN = Service(0.0, lambda _kind, _count: 0.0, lambda _kind: None)


def ticket(number: int, deadline_s: float, flow: Hashable = "a", weight: float = 1.0, arrived_s: float = 0.0) -> Ticket:
    return Ticket(number, flow, "k", arrived_s, deadline_s, weight)


def agenda_of(*tickets: Ticket, kind: str = "edf_weighted") -> Agenda:
    agenda = Agenda(SCHEDULING_KINDS[kind]())
    for each in tickets:
        agenda.add(each)
    return agenda


def numbers(tickets: list[Ticket]) -> list[int]:
    return [each.number for each in tickets]


# The order.


@pytest.mark.parametrize(("kind", "order"), [("fifo", [0, 1, 2]), ("edf", [2, 0, 1]), ("edf_weighted", [2, 0, 1])])
def test_each_kind_has_its_order(kind: str, order: list[int]) -> None:
    assert numbers(agenda_of(ticket(0, 0.2), ticket(1, 0.3), ticket(2, 0.1), kind=kind).ordered()) == order


def test_among_equal_slack_the_flow_goes_first_that_has_had_least_for_its_weight() -> None:
    agenda = agenda_of(ticket(0, 0.101, "a"), ticket(1, 0.103, "b"), ticket(2, 0.105, "heavy", weight=4.0))
    agenda.served("a", 0.02, 0.0)
    agenda.served("b", 0.01, 0.0)
    agenda.served("heavy", 0.02, 0.0)
    assert numbers(agenda.ordered()) == [2, 1, 0]


def test_among_flows_that_have_had_nothing_weight_over_budget_decides() -> None:
    first, tight, heavy = (
        ticket(0, 0.105, "a", arrived_s=0.0),
        ticket(1, 0.106, "b", arrived_s=0.1),
        ticket(2, 0.107, "c", weight=2.0),
    )
    assert numbers(agenda_of(first, tight, heavy).ordered()) == [1, 2, 0]


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("abc"), st.floats(0, 5)), max_size=12))
def test_nothing_goes_before_what_is_due_a_slack_class_earlier(works: list[tuple[float, str, float]]) -> None:
    agenda = agenda_of(*(ticket(n, due_s, flow, weight) for n, (due_s, flow, weight) in enumerate(works)))
    agenda.served("a", 0.3, 0.0)
    order = agenda.ordered()
    for sooner, later in pairwise(order):
        assert sooner.deadline_s < later.deadline_s + POLICY.slack_class_s


# What gives way.


def test_what_cannot_be_in_time_even_alone_is_hopeless() -> None:
    dead, short, enough = ticket(0, 1.0), ticket(1, 1.03), ticket(2, 1.04)
    drops = agenda_of(dead, short, enough).drops(service(free_s=0.02), 1.0)
    assert [(drop.ticket, drop.reason) for drop in drops] == [(dead, DropReason.HOPELESS), (short, DropReason.HOPELESS)]
    assert drops[1].left_s == pytest.approx(0.03)
    assert drops[1].ahead_s + drops[1].alone_s == pytest.approx(0.036)


def test_while_run_times_are_unknown_only_what_is_past_its_deadline_is_dropped() -> None:
    agenda = agenda_of(*(ticket(n, 1.0 + 0.001 * n) for n in range(20)))
    assert [drop.ticket.number for drop in agenda.drops(UNKNOWN, 1.0)] == [0]


def test_where_not_all_can_be_in_time_the_flow_that_has_had_most_for_its_weight_gives_way() -> None:
    agenda = agenda_of(ticket(0, 0.04, "a"), ticket(1, 0.041, "b"), ticket(2, 0.042, "c"))
    agenda.served("b", 0.1, 0.0)
    [drop] = agenda.drops(service(), 0.0)
    assert (drop.ticket.number, drop.reason) == (1, DropReason.OUTWEIGHED)
    agenda.served("a", 0.11, 0.0)
    [drop] = agenda.drops(service(), 0.0)
    assert drop.ticket.number == 0


def test_under_overload_a_heavier_flow_is_preferred() -> None:
    agenda = agenda_of(ticket(0, 0.03, "light"), ticket(1, 0.031, "heavy", weight=3.0))
    agenda.served("light", 0.1, 0.0)
    agenda.served("heavy", 0.2, 0.0)
    [drop] = agenda.drops(service(), 0.0)
    assert drop.ticket.flow == "light"


def test_what_gives_way_makes_the_room_that_is_needed() -> None:
    """The short one of the flow that has had most would not bring the long one in time, so the long one goes."""
    short = [Ticket(n, flow, "k", 0.0, 0.1, 1.0) for n, flow in enumerate(("greedy", "a"))]
    long = Ticket(2, "b", "slow", 0.0, 0.11, 1.0)
    agenda = agenda_of(*short, long)
    agenda.served("greedy", 1.0, 0.0)
    [drop] = agenda.drops(_two_kinds(0.04), 0.0)
    assert drop.ticket is long
    [drop] = agenda.drops(_two_kinds(0.03), 0.0)
    assert drop.ticket is short[0]


def test_of_one_flow_that_fills_the_queue_the_others_have_their_part() -> None:
    flood = [ticket(n, 0.1 + 0.0001 * n, "flood") for n in range(6)]
    agenda = agenda_of(*flood, ticket(6, 0.102, "calm"))
    drops = agenda.drops(service(), 0.0)
    assert [drop.ticket.flow for drop in drops] == ["flood"]


@pytest.mark.parametrize("kind", ["fifo", "edf"])
def test_the_baselines_drop_nothing(kind: str) -> None:
    assert agenda_of(ticket(0, 0.0), ticket(1, 0.001), kind=kind).drops(service(), 9.0) == []


works = st.lists(
    st.tuples(st.floats(0, 0.5), st.sampled_from("abcde"), st.floats(0, 4), st.sampled_from(["k", "slow"])), max_size=25
)


def _two_kinds(free_s: float) -> Service:
    each_s = {"k": EACH_S, "slow": 3 * EACH_S}
    return Service(free_s, lambda kind, count: count * each_s[str(kind)], lambda kind: 1.2 * each_s[str(kind)])


@given(works, st.floats(0, 0.1), st.dictionaries(st.sampled_from("abcde"), st.floats(0, 1)))
def test_what_is_kept_can_all_be_in_time_and_nothing_is_lost_or_dropped_twice(
    plan: list[tuple[float, str, float, str]], free_s: float, had_s: dict[str, float]
) -> None:
    agenda = Agenda(POLICY)
    for number, (due_s, flow, weight, kind) in enumerate(plan):
        agenda.add(Ticket(number, flow, kind, 0.0, due_s, weight))
    for flow, amount_s in had_s.items():
        agenda.served(flow, amount_s, 0.0)
    expected = _two_kinds(free_s)
    drops = agenda.drops(expected, 0.0)
    dropped = {drop.ticket.number for drop in drops}
    assert len(dropped) == len(drops)
    kept = [each for each in agenda.ordered() if each.number not in dropped]
    assert len(kept) + len(drops) == len(plan) == len(agenda)
    counts: Counter[Hashable] = Counter()
    for each in kept:
        ahead_s = free_s + sum(expected.together_s(kind, count) for kind, count in counts.items())
        assert ahead_s + (expected.alone_s(each.kind) or 0.0) <= each.deadline_s + 1e-9
        counts[each.kind] += 1
    assert all(_fits_alone(drop, free_s) == (drop.reason is DropReason.OUTWEIGHED) for drop in drops)


def _fits_alone(drop: Drop, free_s: float) -> bool:
    return free_s + drop.alone_s <= drop.left_s and drop.left_s > 0


@given(
    st.dictionaries(st.integers(1, 25), st.sampled_from("abcd"), min_size=8),
    st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1)),
)
def test_no_more_gives_way_than_must(due_by_class: dict[int, str], had_s: dict[str, float]) -> None:
    """With equal run times as much is kept as any choice could keep, whoever gives way.

    One deadline per slack class: within a class the order may be another than that of deadlines.
    """
    due = [(0.01 * number + 0.001, flow) for number, flow in sorted(due_by_class.items())]
    agenda = agenda_of(*(ticket(number, due_s, flow) for number, (due_s, flow) in enumerate(due)))
    for flow, amount_s in had_s.items():
        agenda.served(flow, amount_s, 0.0)
    most = 0
    for due_s, _ in due:
        most += (most + 1) * EACH_S <= due_s
    assert len(due) - len(agenda.drops(service(), 0.0)) == most


# Fairness and starvation.


def _serve_always_offering(weights: dict[str, float], rounds: int) -> list[str]:
    """Who is served when every flow always has one ticket waiting, and only one of all can be in time."""
    agenda, served = Agenda(POLICY), list[str]()
    for turn in range(rounds):
        now_s = turn * EACH_S
        offers = [
            Ticket(turn * len(weights) + n, flow, "k", now_s, now_s + 1.5 * EACH_S, weight)
            for n, (flow, weight) in enumerate(weights.items())
        ]
        for each in offers:
            agenda.add(each)
        for drop in agenda.drops(service(), now_s):
            agenda.remove(drop.ticket)
        [chosen] = agenda.ordered()
        agenda.remove(chosen)
        agenda.served(chosen.flow, EACH_S, now_s + EACH_S)
        served.append(str(chosen.flow))
    return served


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([1.0, 2.0, 3.0]), min_size=2))
def test_under_overload_flows_share_by_their_weights(weights: dict[str, float]) -> None:
    served = _serve_always_offering(weights, rounds=600)
    total = sum(weights.values())
    for flow, weight in weights.items():
        assert served.count(flow) == pytest.approx(600 * weight / total, rel=0.1, abs=3)


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([0.5, 1.0, 4.0]), min_size=2))
def test_no_flow_starves_behind_heavier_ones(weights: dict[str, float]) -> None:
    """Between two services of a flow each other one is served at most 1 + its part of what the first one had."""
    served = _serve_always_offering(weights, rounds=300)
    accounts = Accounts()
    for turn, flow in enumerate(served):
        accounts.charge(flow, EACH_S, (turn + 1) * EACH_S)
        had_s = accounts.had_s(flow, (turn + 1) * EACH_S)
        rest = served[turn + 1 :]
        if flow not in rest:
            continue
        between = Counter(rest[: rest.index(flow)])
        for other, count in between.items():
            assert count <= 1 + had_s / weights[flow] * weights[other] / EACH_S


def test_a_flow_with_slack_deadlines_is_not_starved_by_tight_ones() -> None:
    """The tight flow alone could take the whole server, always due earlier; the slack one still has its half."""
    agenda, served, number = Agenda(POLICY), Counter[Hashable](), 0
    for turn in range(400):
        now_s = turn * EACH_S
        for flow, budget_s in (("tight", 1.5 * EACH_S), ("slack", 0.4)):
            agenda.add(Ticket(number, flow, "k", now_s, now_s + budget_s))
            number += 1
        for drop in agenda.drops(service(), now_s):
            agenda.remove(drop.ticket)
        chosen = agenda.ordered()[0]
        agenda.remove(chosen)
        agenda.served(chosen.flow, EACH_S, now_s + EACH_S)
        served[chosen.flow] += 1
    assert served["slack"] == pytest.approx(200, abs=20)


# Accounts.


def test_an_account_fades_and_idle_time_is_not_saved_up() -> None:
    accounts = Accounts(memory_s=10.0)
    accounts.charge("a", 1.0, 0.0)
    assert accounts.had_s("a", 10.0) == pytest.approx(0.3679, abs=1e-4)
    accounts.charge("a", 1.0, 10.0)
    assert accounts.had_s("a", 10.0) == pytest.approx(1.3679, abs=1e-4)
    assert accounts.had_s("never seen", 10.0) == 0.0


def test_accounts_are_bounded_in_flows_and_forget_the_one_served_longest_ago() -> None:
    accounts = Accounts(most_flows=3)
    for turn, flow in enumerate("abcad"):
        accounts.charge(flow, 1.0, float(turn))
    assert len(accounts) == 3
    assert accounts.had_s("b", 5.0) == 0.0
    assert accounts.had_s("a", 5.0) > 0


def test_a_ticket_waits_once_and_leaves_once() -> None:
    first = ticket(0, 1.0)
    agenda = agenda_of(first)
    with pytest.raises(ValueError, match="already waits"):
        agenda.add(ticket(0, 2.0))
    agenda.remove(first)
    with pytest.raises(ValueError, match="not in list"):
        agenda.remove(first)
    assert len(agenda) == 0
