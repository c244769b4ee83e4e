"""How long a disturbance is felt is told from the hit ratio, window by window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.load.arrivals import Arrival, arrivals
from foveate.load.outcomes import End, Outcome
from foveate.load.windows import Window, hit_windows, recovery_s, unheard


def answered(arrival: Arrival, after_s: float | None) -> Outcome:
    """``after_s`` None: nothing ever came."""
    if after_s is None:
        return Outcome(arrival, End.UNANSWERED, arrival.at_s)
    return Outcome(arrival, End.ANSWERED, arrival.at_s, arrival.at_s + after_s, replies=1)


def outage(from_s: float, to_s: float) -> list[Outcome]:
    """Sixty requests per second, none of which is answered within the outage."""
    return [
        answered(each, None if from_s <= each.at_s < to_s else 0.05) for each in arrivals("poisson", 60.0, 10.0, seed=1)
    ]


@given(st.floats(0.2, 5.0))
def test_an_outage_is_felt_until_the_end_of_its_last_window(length_s: float) -> None:
    felt_s = recovery_s(hit_windows(outage(3.0, 3.0 + length_s), 10.0), 3.0, 0.1)
    assert length_s - 0.1 <= felt_s <= length_s + 0.5


def test_what_the_load_does_by_itself_is_no_disturbance() -> None:
    every = [answered(each, 0.2 if each.number % 10 == 0 else 0.05) for each in arrivals("poisson", 60.0, 10.0, seed=1)]
    shaky = hit_windows(every, 10.0)
    steady = [Window(0.5 * at, 30, 27) for at in range(20)]
    assert recovery_s(steady, 3.0, 0.1) == 0.0
    assert min(each.hit_ratio for each in shaky) < 1.0
    assert recovery_s([*steady[:6], Window(3.0, 30, 20), *steady[7:]], 3.0, 0.1) == 0.5


def test_what_was_under_way_at_the_blow_does_not_lower_the_bar() -> None:
    whole, half, better = (Window(0.0, 30, hits) for hits in (30, 15, 20))
    hit = [*[whole] * 5, half, better, better, *[whole] * 4]
    windows = [Window(0.5 * at, each.offered, each.in_time) for at, each in enumerate(hit)]
    assert recovery_s(windows, 3.0, deadline_s=0.15) == 1.0


@given(st.floats(0.5, 20.0), st.floats(0.1, 2.0))
def test_every_request_is_in_one_window(duration_s: float, length_s: float) -> None:
    every = [answered(each, 0.05) for each in arrivals("bursty", 40.0, duration_s, seed=2)]
    windows = hit_windows(every, duration_s, length_s)
    assert sum(each.offered for each in windows) == sum(each.in_time for each in windows) == len(every)


def test_a_disturbance_without_a_before_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="before"):
        recovery_s(hit_windows(outage(0.0, 1.0), 10.0), 0.2, 0.1)


def test_unheard_are_those_without_a_word_by_their_deadline() -> None:
    arrival = Arrival(0, 1.0, 0.1, (32, 32), 0, 0)
    refused = Outcome(arrival, End.REFUSED, 1.0, 1.05, "infeasible", replies=1)
    too_late = Outcome(arrival, End.REFUSED, 1.0, 1.2, "expired", replies=1)
    lost, not_sent = answered(arrival, None), Outcome(arrival, End.NOT_SENT, reason="backlog")
    assert unheard([answered(arrival, 0.05), refused, not_sent, lost, too_late]) == [lost, too_late]
