"""What is under way tells whether the way is silent."""

import pytest

from edge_agent.lanes import Flight, silent, unanswered
from edge_agent.questions import Question
from pipeline.frames import FrameKey
from pipeline.policies.window import SendWindow


def flight(*, missed: bool = False, cut_off: bool = False) -> Flight:
    question = Question(FrameKey("hall", 1, 0), "mosaic", 64, 48, (), b"", 0.13, 1.0)
    return Flight(question, 0.0, 5000, 0.0, SendWindow().departs(5000, 0, 0.0), missed=missed, cut_off=cut_off)


@pytest.mark.parametrize(
    ("flights", "expected"),
    [
        ([], False),
        ([flight()], False),
        ([flight(missed=True)], True),
        ([flight(missed=True), flight()], False),
        ([flight(missed=True), flight(missed=True)], True),
        ([flight(missed=True, cut_off=True)], False),
    ],
)
def test_the_way_is_silent_where_all_that_is_out_was_missed(flights: list[Flight], expected: bool) -> None:
    assert silent(flights) is expected


def test_what_was_cut_off_takes_up_nothing_of_the_way() -> None:
    assert unanswered([flight(), flight(missed=True), flight(missed=True, cut_off=True)]) == (5000, 5000)
