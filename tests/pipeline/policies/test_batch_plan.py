"""The look ahead counts who is in time, batch after batch."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.batch_plan import in_time, largest


def run_s(batch: int) -> float:
    return 5.0 + batch


def test_those_who_can_all_wait_are_all_in_time_whatever_goes_first() -> None:
    assert [in_time([99.0] * 10, size, 0.0, 4, run_s) for size in (1, 2, 4)] == [10, 10, 10]


def test_a_small_batch_for_one_that_is_nearly_late_may_cost_those_behind_it() -> None:
    waiting = [6.0, *[10.0] * 5]
    assert in_time(waiting, 1, 0.0, 8, run_s) == 1, "the others would need until 16 and have until 10"
    assert in_time(waiting, 5, 0.0, 8, run_s) == 5


def test_who_is_late_with_a_batch_is_left_out_of_it() -> None:
    assert in_time([6.0, 20.0, 20.0], 2, 0.0, 8, run_s) == 2
    assert in_time([6.0, 20.0, 20.0], 1, 0.0, 8, run_s) == 3


def test_the_largest_batch_is_that_of_the_most_patient() -> None:
    assert largest([6.0, 7.0, 9.0, 9.0, 9.0, 9.0], 0.0, 8, run_s) == 4
    assert largest([6.0, 7.0, 9.0, 9.0, 9.0, 9.0], 0.0, 3, run_s) == 3
    assert largest([5.9], 0.0, 8, run_s) == 0


@given(
    lefts_s=st.lists(st.floats(0, 60), max_size=12).map(sorted),
    size=st.integers(1, 8),
    most=st.integers(1, 8),
    later_s=st.floats(0, 20),
)
def test_no_more_are_in_time_than_wait_nor_more_when_it_is_later(
    lefts_s: list[float], size: int, most: int, later_s: float
) -> None:
    met = in_time(lefts_s, size, 0.0, most, run_s)
    assert 0 <= met <= len(lefts_s)
    assert met >= min(size, sum(left_s >= run_s(size) for left_s in lefts_s)), "the first batch at least"
    alone = in_time([left_s for left_s in lefts_s if left_s >= run_s(size)], size, 0.0, most, run_s)
    assert alone == met, "those who would be late with the first change nothing"
