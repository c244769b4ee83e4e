"""No request is lost and none is answered twice, however often it moves and whoever answers when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.open_requests import Left, OpenRequests, RequestCounts, Word


def opened(*stages: tuple[str, int], until_s: float = 1.0) -> OpenRequests[int]:
    requests: OpenRequests[int] = OpenRequests()
    assert requests.ask(1, until_s)
    for target, stage in stages:
        assert requests.owes(1, target, stage)
    return requests


def test_the_first_answer_ends_a_request_and_a_second_one_is_unexpected() -> None:
    requests = opened(("edge", 1), ("cloud", 1))
    assert requests.answered(1, "cloud", 0.5) is Word.FINAL
    assert requests.answered(1, "edge", 0.6) is Word.UNEXPECTED
    assert requests.counts() == RequestCounts(1, 1, 0, 0, 0, 1)


def test_a_first_answer_stands_until_the_better_one() -> None:
    requests = opened(("edge", 1), ("cloud", 2))
    assert requests.answered(1, "edge", 0.1) is Word.FIRST
    assert requests.owing(1) == ("cloud",)
    assert not requests.owes(1, "edge-2", 1)  # nobody needs another first answer
    assert requests.answered(1, "cloud", 0.2) is Word.FINAL


def test_a_better_answer_that_comes_first_is_final() -> None:
    requests = opened(("edge", 1), ("cloud", 2))
    assert requests.answered(1, "cloud", 0.1) is Word.FINAL
    assert requests.answered(1, "edge", 0.2) is Word.UNEXPECTED


def test_a_first_answer_is_final_when_no_better_one_will_come() -> None:
    requests = opened(("edge", 1), ("cloud", 2))
    requests.answered(1, "edge", 0.1)
    assert requests.withdrawn(1, "cloud") is Left.SETTLED
    late = opened(("edge", 1), ("cloud", 2))
    late.answered(1, "edge", 0.1)
    assert late.expire(1.0) == (1,)
    assert requests.counts() == late.counts() == RequestCounts(1, 0, 1, 0, 0, 0)


def test_a_refused_request_waits_for_whoever_else_owes_it_or_falls_back() -> None:
    requests = opened(("edge", 1), ("cloud", 1))
    assert requests.withdrawn(1, "edge") is Left.OPEN
    assert requests.withdrawn(1, "edge") is None
    assert requests.withdrawn(1, "cloud") is Left.NOBODY
    assert requests.owes(1, "edge-2", 1)  # moved
    assert requests.withdrawn(1, "edge-2") is Left.NOBODY
    assert requests.fall_back(1)
    assert not requests.fall_back(1)
    assert requests.counts() == RequestCounts(1, 0, 0, 1, 0, 0)


def test_an_answer_after_the_time_of_its_request_is_unexpected_even_before_that_was_expired() -> None:
    requests = opened(("edge", 1), until_s=1.0)
    assert requests.answered(1, "edge", 1.0) is Word.UNEXPECTED
    assert requests.expire(1.0) == (1,)
    assert requests.counts().fell_back == 1


def test_a_request_is_open_once_and_so_many_may_be() -> None:
    requests: OpenRequests[int] = OpenRequests(most=2)
    assert [requests.ask(key, 1.0) for key in (1, 1, 2, 3)] == [True, False, True, False]
    assert requests.counts().asked == len(requests) == 2


def test_what_a_target_owes_is_known_in_the_order_of_asking() -> None:
    requests: OpenRequests[int] = OpenRequests()
    for key in (3, 1, 2):
        requests.ask(key, 1.0)
        requests.owes(key, "cloud" if key == 1 else "edge", 1)
    assert requests.owed_by("edge") == (3, 2)
    assert requests.owing(9) == ()


targets = st.sampled_from(("device", "edge", "edge-2", "cloud"))
steps = st.tuples(
    st.sampled_from(("ask", "owes", "answered", "withdrawn", "fall_back", "expire")),
    st.integers(0, 3),
    targets,
    st.integers(1, 2),
    st.floats(0.0, 0.3),
)


@pytest.mark.parametrize("most", [2, 100])
@given(course=st.lists(steps, max_size=80))
def test_every_request_ends_exactly_once(most: int, course: list[tuple[str, int, str, int, float]]) -> None:
    requests: OpenRequests[tuple[int, int]] = OpenRequests(most)
    rounds: dict[int, int] = dict.fromkeys(range(4), 0)
    finals: dict[tuple[int, int], int] = {}
    firsts: dict[tuple[int, int], int] = {}
    asked, now_s = set(), 0.0
    for what, number, target, stage, gap_s in course:
        now_s += gap_s
        key = number, rounds[number]
        if what == "ask":
            if requests.ask((number, rounds[number] + 1), now_s + 0.5):
                rounds[number] += 1
                asked.add((number, rounds[number]))
        elif what == "owes":
            requests.owes(key, target, stage)
        elif what == "answered":
            word = requests.answered(key, target, now_s)
            finals[key] = finals.get(key, 0) + (word is Word.FINAL)
            firsts[key] = firsts.get(key, 0) + (word is Word.FIRST)
        elif what == "withdrawn":
            finals[key] = finals.get(key, 0) + (requests.withdrawn(key, target) is Left.SETTLED)
        elif what == "fall_back":
            finals[key] = finals.get(key, 0) + requests.fall_back(key)
        else:
            for over in requests.expire(now_s):
                finals[over] = finals.get(over, 0) + 1
        c = requests.counts()
        assert c.asked == c.answered + c.settled + c.fell_back + c.in_flight == len(asked)
        assert c.in_flight == len(requests) <= most
    for over in requests.expire(now_s + 1.0):
        finals[over] = finals.get(over, 0) + 1
    assert len(requests) == 0
    assert {key for key, count in finals.items() if count} == asked
    assert max(finals.values(), default=0) <= 1
    assert max(firsts.values(), default=0) <= 1
