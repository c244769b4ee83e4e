"""The search ends, brackets the truth, and runs a rate again while chance may have decided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.load.search import RateSearch, wilson


def run(search: RateSearch, capacity_per_s: float, offered: int = 1000) -> int:
    """Search for a server that misses whatever is above its capacity; the number of runs that it took."""
    runs = 0
    while (rate := search.next_rate) is not None:
        missed = round(offered * max(0.0, 1 - capacity_per_s / rate))
        search.tell(offered, missed)
        runs += 1
        assert runs < 200, "the search does not end"
    return runs


@given(st.floats(0.2, 5000), st.floats(0.2, 5000))
def test_the_truth_is_between_what_passed_and_what_failed(first: float, capacity: float) -> None:
    search = RateSearch(first)
    run(search, capacity)
    found = search.found
    assert found.best is not None
    assert found.above is not None
    assert found.best.rate_per_s <= capacity * 1.012
    assert found.above.rate_per_s >= capacity
    assert found.above.rate_per_s / found.best.rate_per_s <= 1.05


def test_a_rate_in_doubt_is_run_again_and_a_clear_one_is_not() -> None:
    search = RateSearch(100.0, runs=3)
    search.tell(200, 3)
    assert search.next_rate == 100.0
    search.tell(200, 1)
    search.tell(200, 1)
    assert search.next_rate == 150.0, "5 of 600 are at most 1 %"
    search.tell(200, 100)
    assert search.next_rate == pytest.approx((100.0 * 150.0) ** 0.5)
    assert [(each.rate_per_s, each.runs, each.missed) for each in search.tried] == [(100.0, 3, 5), (150.0, 1, 100)]


def test_a_server_that_never_fails_ends_at_the_limit_and_one_that_never_answers_at_nothing() -> None:
    fast, dead = RateSearch(100.0, most_per_s=300.0), RateSearch(10.0, least_per_s=1.0)
    run(fast, 1e9)
    assert (fast.found.best is not None and fast.found.best.rate_per_s, fast.found.above) == (300.0, None)
    run(dead, 0.0)
    assert dead.found.best is None
    assert dead.found.above is not None
    assert dead.found.above.rate_per_s == 1.0


def test_a_rate_at_which_nobody_asked_has_not_been_answered() -> None:
    search = RateSearch(1.0, least_per_s=1.0, runs=2)
    search.tell(0, 0)
    search.tell(0, 0)
    assert search.found.best is None


def test_a_search_that_is_over_takes_no_more_runs() -> None:
    search = RateSearch(1.0, least_per_s=1.0, most_per_s=1.0)
    search.tell(1000, 0)
    with pytest.raises(ValueError, match="over"):
        search.tell(1000, 0)


@given(st.integers(1, 10_000), st.data())
def test_an_interval_holds_the_share_and_narrows_with_more_runs(offered: int, data: st.DataObject) -> None:
    missed = data.draw(st.integers(0, offered))
    low, high = wilson(missed, offered)
    assert 0 <= low <= missed / offered + 1e-12
    assert missed / offered - 1e-12 <= high <= 1
    wide_low, wide_high = wilson(missed * 4, offered * 4)
    assert wide_high - wide_low < high - low
