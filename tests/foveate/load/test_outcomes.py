"""A summary loses nothing: every request is in exactly one of its counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.load.arrivals import Arrival
from foveate.load.outcomes import End, Outcome, Percentiles, Served, summarise

PICTURE = (32, 32)


def outcome(number: int, at_s: float, end: End, sent_s: float | None, ended_s: float | None, replies: int) -> Outcome:
    served = Served(3.0, 2.0, 0.5, 1.0, 2, "run", "w1") if end is End.ANSWERED else None
    arrival = Arrival(number, at_s, 0.1, PICTURE, 0, number)
    return Outcome(arrival, end, sent_s, ended_s, "why" if end in {End.REFUSED, End.NOT_SENT} else "", served, replies)


@st.composite
def outcomes(draw: st.DrawFn) -> list[Outcome]:
    made = []
    for number in range(draw(st.integers(0, 20))):
        at_s, end = draw(st.floats(0, 5)), draw(st.sampled_from(End))
        sent_s = None if end is End.NOT_SENT else at_s + draw(st.floats(0, 0.02))
        ended_s = (sent_s or at_s) + draw(st.floats(0, 0.3)) if end in {End.ANSWERED, End.REFUSED} else None
        made.append(outcome(number, at_s, end, sent_s, ended_s, draw(st.integers(0, 2))))
    return made


@given(outcomes())
def test_sent_is_in_time_and_late_and_refused_and_unanswered(every: list[Outcome]) -> None:
    summary = summarise(every, 5.0)
    refused = sum(summary.refused.values())
    assert summary.sent == summary.in_time + summary.late + refused + summary.unanswered
    assert summary.offered == summary.sent + sum(summary.not_sent.values()) == len(every)
    assert summary.missed == summary.offered - summary.in_time
    assert sum(summary.batch_sizes.values()) == sum(summary.servers.values()) == summary.in_time + summary.late
    assert summary.answered_twice == sum(each.replies > 1 for each in every)


def test_time_counts_from_the_moment_of_a_request_and_not_from_its_sending() -> None:
    behind = outcome(0, 1.0, End.ANSWERED, 1.09, 1.11, 1)
    summary = summarise([behind], 2.0)
    assert (summary.in_time, summary.late) == (0, 1)
    round_trip, network = summary.segments["round_trip"], summary.segments["network"]
    assert round_trip is not None
    assert round_trip.p50_ms == pytest.approx(110.0)
    assert network is not None
    assert network.p50_ms == pytest.approx(17.0), "from the sending, less the server's own total"
    assert (summary.late_sends, summary.kept_up) == (1, False)
    assert summary.worst_send_lag_ms == pytest.approx(90.0)


def test_a_generator_that_is_too_late_to_send_at_all_has_not_kept_up() -> None:
    every = [outcome(0, 0.0, End.ANSWERED, 0.0, 0.01, 1), outcome(1, 0.5, End.NOT_SENT, None, None, 0)]
    summary = summarise(every, 1.0)
    assert (summary.late_sends, summary.kept_up) == (0, False)


def test_the_wait_for_company_is_told_apart_from_the_queue() -> None:
    segments = summarise([outcome(0, 0.0, End.ANSWERED, 0.0, 0.01, 1)], 1.0).segments
    assert segments["queue"] == Percentiles(1.5, 1.5, 1.5)
    assert segments["batch_wait"] == Percentiles(0.5, 0.5, 0.5)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=300))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float]) -> None:
    found = Percentiles.of(values)
    assert found is not None
    for percent, value in ((50, found.p50_ms), (95, found.p95_ms), (99, found.p99_ms)):
        assert value in values
        assert sum(each <= value for each in values) * 100 >= percent * len(values)


def test_a_run_of_no_length_has_no_rates() -> None:
    with pytest.raises(ValueError, match="no rates"):
        summarise([], 0.0)
