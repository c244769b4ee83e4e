"""What an analysed frame tells the gate."""

import numpy as np
import pytest

from edge_agent.tidings import Tidings, correction, tidings
from edge_agent.tracking.history import Tracker
from edge_agent.tracking.tracks import Observations, TrackerSettings, Verdict
from pipeline.detections import Detections
from pipeline.policies.change import NO_BOXES
from pipeline.policies.keep import News

SETTINGS = TrackerSettings()
STEP_S = 0.2


def people(*lefts: float, score: float = 0.8) -> Detections:
    """People 20 pixels wide and 40 high, by their left side."""
    return Detections.of([(x, 0.0, x + 20, 40.0) for x in lefts], [score] * len(lefts), ["person"] * len(lefts))


def told(*frames: Detections) -> Tidings:
    """What the last of these frames tells."""
    tracker = Tracker(SETTINGS)
    entries = [tracker.observe(n, n * STEP_S, found) for n, found in enumerate(frames)]
    return tidings(entries[-1], entries[-2] if len(entries) > 1 else None, SETTINGS)


def test_an_empty_frame_tells_nothing() -> None:
    assert told(people()) == Tidings(0.0, 0, News(elsewhere=False, tracked=False))


def test_somebody_new_is_news_from_elsewhere() -> None:
    assert told(people(100), people(100, 300)) == Tidings(0.0, 1, News(elsewhere=True, tracked=False))


def test_who_stands_is_no_news_and_has_no_speed() -> None:
    assert told(*[people(100, 300)] * 5) == Tidings(0.0, 0, News(elsewhere=False, tracked=False))


def test_who_walks_as_foretold_is_no_news_and_has_a_speed_in_widths() -> None:
    last = told(*[people(100 + 4.0 * n) for n in range(20)])
    assert last.news == News(elsewhere=False, tracked=False)
    assert last.speed_widths_s == pytest.approx(1.0, abs=0.1)


def test_the_speed_is_that_of_those_who_move() -> None:
    last = told(*[people(100 + 4.0 * n, 300, 400, 500) for n in range(20)])
    assert last.speed_widths_s == pytest.approx(1.0, abs=0.1)


def test_who_leaves_is_news_once() -> None:
    assert told(people(100), people(100), people()).news.tracked
    assert not told(people(100), people(100), people(), people()).news.tracked


def test_who_turns_sharply_is_news() -> None:
    walk = [people(100 + 8.0 * n) for n in range(10)]
    assert told(*walk, people(100 + 8.0 * 9 - 4)).news.tracked


def test_what_is_not_sure_enough_to_be_published_is_no_news() -> None:
    sure = told(people(100), people(100, 300, score=0.45))
    unsure = told(people(100), people(100, 300, score=0.3))
    assert (sure.births, unsure.births) == (1, 0)
    assert not unsure.news.elsewhere


def test_what_the_cloud_has_denied_is_no_news() -> None:
    tracker = Tracker(SETTINGS)
    first = tracker.observe(0, 0.0, people(100))
    tracker.correct(0, Observations(people(100), np.array([Verdict.DENIED], np.int8), NO_BOXES))
    last = tidings(tracker.observe(1, STEP_S, people()), first, SETTINGS)
    assert not last.news.tracked


def test_boxes_of_another_size_from_the_cloud_are_no_news() -> None:
    tracker, last = Tracker(SETTINGS), None
    wide = Detections.of([(90.0, 0.0, 130.0, 40.0)], [0.9], ["person"])
    for n in range(6):
        entry = tracker.observe(n, n * STEP_S, people(100))
        said = tidings(entry, last, SETTINGS)
        tracker.correct(n, Observations(wide, np.array([Verdict.CONFIRMED], np.int8), NO_BOXES))
        last = entry
    assert said.news == News(elsewhere=False, tracked=False)


def test_after_a_correction_an_earlier_entry_can_still_be_told() -> None:
    tracker = Tracker(SETTINGS)
    first = tracker.observe(0, 0.0, people(100))
    tracker.correct(0, Observations(people(), np.zeros(0, np.int8), NO_BOXES))
    assert tidings(first, None, SETTINGS).births == 1


@pytest.mark.parametrize(
    ("before", "after", "elsewhere", "tracked"),
    [
        (people(), people(), False, False),
        (people(100), people(104), False, False),
        (people(100), people(100, 300), True, False),
        (people(), people(100), True, False),
        (people(100, 300), people(100), False, True),
        (people(100), people(), False, True),
        (people(100), people(300), True, True),
    ],
)
def test_the_cloud_brings_news_where_it_adds_or_takes_away(
    before: Detections, after: Detections, elsewhere: bool, tracked: bool
) -> None:
    assert correction(before, after) == News(elsewhere=elsewhere, tracked=tracked)
