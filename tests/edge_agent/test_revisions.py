"""What was published lately is known while a late answer may change it, and not for longer."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.resolve import Phase
from edge_agent.revisions import MOST, Published, RecentResults, open_to_revision
from pipeline.frames import FrameKey
from pipeline.policies.fallback import LATE_WITHIN_S
from pipeline.results import Origin
from tests.edge_agent.test_answers import PENDING, RESULT


def published(seq: int, at_s: float, wait_s: float = 0.1) -> Published:
    key = FrameKey("hall", 3, seq)
    return Published(replace(PENDING, key=key, captured_at_s=at_s - wait_s), RESULT, at_s)


def test_a_late_answer_is_useful_for_two_seconds_from_capture() -> None:
    recent = RecentResults()
    recent.add(published(1, at_s=100.1))
    key = FrameKey("hall", 3, 1)
    assert recent.useful(key, 102.0, patient=False) is not None
    assert recent.useful(key, 102.01, patient=False) is None


def test_for_a_file_that_waits_for_the_cloud_the_time_counts_from_the_result() -> None:
    recent = RecentResults()
    recent.add(published(1, at_s=110.0, wait_s=10.0))
    assert recent.useful(FrameKey("hall", 3, 1), 111.9, patient=True) is not None
    assert recent.useful(FrameKey("hall", 3, 1), 111.9, patient=False) is None


def test_an_answer_for_a_frame_that_nobody_remembers_is_useless() -> None:
    recent = RecentResults()
    recent.add(published(1, at_s=100.0))
    assert recent.useful(FrameKey("hall", 4, 1), 100.0, patient=False) is None


def test_a_search_that_nobody_waits_for_may_be_followed_by_a_revision() -> None:
    assert open_to_revision(replace(PENDING, reason="search_late"))
    assert not open_to_revision(replace(PENDING, reason="nothing_uncertain"))


def test_a_frame_is_revised_once_for_each_time_that_it_was_asked_for() -> None:
    recent, first = RecentResults(), published(1, at_s=100.0)
    recent.add(first)
    recent.revise(replace(first.pending, origin=Origin.CLOUD))
    revised = recent.take_revised()
    assert revised is not None
    assert (revised.pending.origin, revised.result) == (Origin.CLOUD, first.result)
    assert recent.take_revised() is None


def test_a_frame_that_was_forgotten_is_not_revised() -> None:
    recent, first = RecentResults(), published(1, at_s=100.0)
    recent.add(first)
    recent.revise(first.pending)
    recent.add(published(2, at_s=100.1 + LATE_WITHIN_S))
    assert recent.take_revised() is None


@given(st.lists(st.floats(0.0, 1.0), max_size=200))
def test_the_memory_is_bounded_by_number_and_by_age(gaps_s: list[float]) -> None:
    recent, now_s = RecentResults(), 0.0
    for seq, gap_s in enumerate(gaps_s):
        now_s += gap_s
        recent.add(published(seq, now_s))
        recent.revise(published(seq, now_s).pending)
        assert len(recent) <= MOST
        assert recent.useful(FrameKey("hall", 3, seq), now_s, patient=True) is not None
    waiting = 0
    while recent.take_revised() is not None:
        waiting += 1
    assert waiting <= MOST


def test_a_revision_may_follow_where_the_question_is_out_or_could_not_be_put() -> None:
    def settled(origin: Origin, reason: str) -> bool:
        return open_to_revision(replace(PENDING, phase=Phase.SETTLED, origin=origin, reason=reason))

    assert settled(Origin.EDGE_TIMEOUT, "cloud_late")
    assert settled(Origin.EDGE, "circuit_open")
    assert not settled(Origin.EDGE, "nothing_uncertain")
    assert not settled(Origin.FUSED, "uncertain")
    assert not settled(Origin.EDGE_SHED, "displaced")
