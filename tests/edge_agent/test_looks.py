"""Looks that a deadline leaves no time for."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.looks import TOLD_AFTER, Looks
from pipeline.results import Origin

ends = st.sampled_from([(Origin.CARRIED, "edge_late"), (Origin.CARRIED, "detector_busy"), (Origin.EDGE, "")])


@given(st.lists(ends, max_size=120))
def test_it_is_told_once_and_only_after_a_row_of_frames_in_vain(script: list[tuple[Origin, str]]) -> None:
    looks, row, longest, told = Looks(), 0, 0, 0
    for origin, reason in script:
        told += looks.ended(origin, reason)
        row = row + 1 if origin is Origin.CARRIED else 0
        longest = max(longest, row)
        assert told == (longest >= TOLD_AFTER)
    analysed = any(origin is not Origin.CARRIED for origin, _ in script)
    assert bool(looks.remark(25.0, 20.0)) == (row >= TOLD_AFTER or (row > 0 and not analysed))


def test_frames_that_were_left_out_for_another_reason_do_not_count() -> None:
    looks = Looks()
    assert not any(looks.ended(Origin.CARRIED, "little_gain") for _ in range(100))
    assert looks.remark(25.0, 20.0) == ""


def test_what_a_look_takes_is_said_where_it_is_known() -> None:
    looks = Looks()
    looks.ended(Origin.CARRIED, "edge_late")
    assert "leaves the small model 5 ms: allow" in looks.remark(25.0, 20.0)
    looks.took(12.0)
    assert "leaves the small model 5 ms, which takes about 12 ms: allow" in looks.remark(25.0, 20.0)
