"""Deadline batching against the others: what the measurement finds, and that it holds."""

from dataclasses import replace

import pytest

from foveate.bench.batch_stand import CAPACITY_PER_S, EACH_S, FIXED_S, serve
from foveate.bench.batching import MISSED, MIXES, NONE, OURS, Course, gains, highest_rate, leads, run_and_answered
from foveate.load.outcomes import End, Outcome, Served, summarise
from foveate.load.runs import Measured
from foveate.load.stand import Spent

COURSE = Course(seed=5, duration_s=2.0)


def test_the_highest_rate_passes_and_a_little_more_does_not() -> None:
    best = highest_rate(OURS, COURSE, 0.5 * CAPACITY_PER_S)
    offered = COURSE.arrivals(best)
    assert serve(OURS, offered).missed <= MISSED * len(offered)
    assert highest_rate(OURS, COURSE, best) == pytest.approx(best, rel=0.1)


def test_without_batching_no_more_passes_than_runs_one_by_one() -> None:
    assert 0 < highest_rate(NONE, COURSE, 70.0) < 1 / (FIXED_S + EACH_S)


def test_batching_where_it_gains_carries_more_than_twice_as_much_and_two_workers_nearly_twice_that() -> None:
    figures = gains([COURSE], lambda _: None)
    assert figures["sim_batch_gain"] == figures["sim_batch_gain_least"] == figures["sim_batch_gain_most"] > 2.5
    assert figures["two_workers_gain"] > 1.6


@pytest.mark.parametrize("load", [0.1, 0.8, 1.3])
def test_no_other_policy_has_more_in_time_whatever_the_deadlines_and_sizes(load: float) -> None:
    mixes = {name: MIXES[name] for name in ("same", "mixed_varying")}
    figures = leads([Course(seed=5, duration_s=1.0)], [load], mixes, lambda _: None)
    assert figures["sim_batch_least_lead"] >= 0, figures


def test_only_what_was_run_and_answered_tells_of_waits() -> None:
    [arrival, *_] = COURSE.arrivals(10.0)
    served = Served(infer_ms=7.0, batch_wait_ms=1.0)
    outcomes = [
        Outcome(arrival, End.ANSWERED, served=served),
        Outcome(arrival, End.ANSWERED, served=replace(served, source="cache")),
        Outcome(arrival, End.REFUSED, served=Served()),
        Outcome(arrival, End.UNANSWERED),
    ]
    spent = Spent(0.0, 0.0, 0.0, 0.0)
    assert run_and_answered([Measured(1.0, summarise(outcomes, 1.0), spent, outcomes)]) == [served]
