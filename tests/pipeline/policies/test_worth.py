"""The size from which a change is worth a look follows what the looks have shown, within bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.worth import LearnedWorth, WorthSettings, rising_share

START = 0.0004
SETTINGS = WorthSettings(START)


def learned(*looks: tuple[float, bool], worth: LearnedWorth | None = None) -> LearnedWorth:
    worth = worth or LearnedWorth(SETTINGS)
    for change, news in looks:
        worth.learn(change, news=news)
    return worth


def test_it_starts_where_it_is_told_to() -> None:
    assert LearnedWorth(SETTINGS).threshold == START


def test_changes_that_never_show_anything_stop_being_worth_a_look() -> None:
    assert learned(*[(1.5 * START, False)] * 20).threshold > 1.5 * START


def test_a_few_looks_without_news_prove_nothing() -> None:
    assert learned(*[(1.5 * START, False)] * 3).threshold == START


def test_larger_changes_keep_their_worth_when_small_ones_lose_it() -> None:
    assert learned(*[(1.5 * START, False)] * 200).threshold <= 2 * START


def test_small_changes_that_show_something_become_worth_a_look() -> None:
    assert learned(*[(0.7 * START, True)] * 10).threshold <= 0.7 * START


def test_news_brings_a_lost_size_back() -> None:
    worth = learned(*[(1.5 * START, False)] * 50)
    assert learned(*[(1.5 * START, True)] * 15, worth=worth).threshold == START


def test_old_evidence_fades_so_that_a_size_is_tried_again() -> None:
    worth = learned(*[(1.5 * START, False)] * 30)
    assert learned(*[(20 * START, True)] * 2000, worth=worth).threshold == START


def test_after_a_day_of_stillness_nothing_has_crept() -> None:
    assert learned(*[(20 * START, True)] * 20_000).threshold == START


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=300))
def test_whatever_is_seen_the_threshold_stays_within_its_bounds(looks: list[tuple[float, bool]]) -> None:
    low, high = START * SETTINGS.least_factor, START * SETTINGS.most_factor
    assert low * (1 - 1e-9) <= learned(*looks).threshold <= high * (1 + 1e-9)


@given(st.lists(st.floats(0, 1), max_size=300))
def test_where_every_look_shows_something_it_never_rises(changes: list[float]) -> None:
    assert learned(*[(change, True) for change in changes]).threshold <= START


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_it_settles_by_the_share_of_looks_with_news(share: float) -> None:
    rng = np.random.default_rng(3)
    worth = learned(*[(1.5 * START, bool(rng.random() < share)) for _ in range(500)])
    assert (worth.threshold <= START) == (share > SETTINGS.least_news)


def test_what_a_larger_change_does_not_show_a_smaller_one_does_not_either() -> None:
    assert learned(*[(6 * START, False)] * 30).threshold > 6 * START


bins = st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 100)), min_size=1, max_size=12)


@given(bins)
def test_shares_rise_and_keep_their_sum(counts: list[tuple[float, float]]) -> None:
    trials = np.array([trial for _, trial in counts])
    hits = np.array([share * trial for share, trial in counts])
    shares = rising_share(hits, trials)
    assert (np.diff(shares) >= -1e-9).all()
    assert shares @ trials == pytest.approx(hits.sum())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_shares_that_rise_already_stay_as_they_are(shares: list[float]) -> None:
    rising = np.sort(shares)
    assert rising_share(rising * 3, np.full(len(rising), 3.0)) == pytest.approx(rising)
