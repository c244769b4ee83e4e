"""The account of who was asked what, and who may still answer."""

from edge_agent.questions import Question
from edge_agent.request_book import RequestBook
from pipeline.frames import FrameKey
from pipeline.policies.open_requests import Left, Word


def question(seq: int, stage: int = 1, stands: float | None = 0.08) -> Question:
    return Question(FrameKey("hall", 1, seq), "mosaic", 640, 480, (), b"", 1.0, 1.0, stands=stands, stage=stage)


def test_no_target_is_asked_twice_also_when_it_has_refused() -> None:
    book, asked = RequestBook(), question(1)
    assert book.open(asked)
    assert not book.open(asked)
    assert book.owes(asked, "edge")
    assert book.owes(asked, "cloud")
    assert book.withdrawn(asked.key, "edge") is Left.OPEN
    assert not book.owes(asked, "edge")
    assert book.tried(asked.key) == {"edge", "cloud"}


def test_a_request_that_nobody_will_answer_has_ended() -> None:
    book, asked = RequestBook(), question(1)
    book.open(asked)
    book.owes(asked, "edge")
    assert book.withdrawn(asked.key, "edge") is Left.NOBODY
    assert (book.counts().fell_back, book.counts().in_flight) == (1, 0)
    assert not book.is_owed(asked.key, "edge")
    assert not book.owes(asked, "cloud")


def test_after_a_first_answer_its_shortfall_is_what_stands() -> None:
    book = RequestBook()
    book.open(question(1))
    book.owes(question(1), "edge")
    book.owes(question(1, stage=2), "cloud")
    key = question(1).key
    assert book.stands(key) == 0.08
    assert book.answered(key, "edge", 0.02, 0.1) is Word.FIRST
    assert book.stands(key) == 0.02
    assert book.answered(key, "cloud", 0.0, 0.2) is Word.FINAL
    assert book.stands(key) is None
    assert book.tried(key) == frozenset()


def test_what_has_no_time_left_ends_with_what_there_is() -> None:
    book = RequestBook()
    for seq in (1, 2):
        book.open(question(seq))
        book.owes(question(seq), "edge")
    book.owes(question(2, stage=2), "cloud")
    book.answered(question(2).key, "edge", 0.02, 0.5)
    book.expire(1.0)
    counts = book.counts()
    assert (counts.fell_back, counts.settled, counts.in_flight) == (1, 1, 0)
    assert book.answered(question(1).key, "edge", 0.0, 1.1) is Word.UNEXPECTED
