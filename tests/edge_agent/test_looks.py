"""Looks that a deadline leaves no time for."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.looks import TOLD_AFTER, Looks
from pipeline.results import Origin

ends = st.sampled_from([Origin.CARRIED, Origin.CARRIED, Origin.CARRIED, Origin.EDGE])


@given(st.lists(ends, max_size=120))
def test_it_is_told_once_and_only_after_a_row_of_frames_in_vain(script: list[Origin]) -> None:
    looks, row, longest, told = Looks(), 0, 0, 0
    for origin in script:
        told += looks.ended(origin)
        row = row + 1 if origin is Origin.CARRIED else 0
        longest = max(longest, row)
        assert told == (longest >= TOLD_AFTER)
    analysed = script.count(Origin.EDGE)
    few = analysed < 0.1 * len(script)
    assert bool(looks.remark(25.0, 20.0)) == (row >= TOLD_AFTER or (row > 0 and not analysed) or few)


def test_a_single_look_in_time_among_many_does_not_hide_the_rest() -> None:
    looks = Looks()
    for origin in [Origin.CARRIED] * 30 + [Origin.EDGE, Origin.CARRIED]:
        looks.ended(origin)
    assert looks.remark(25.0, 20.0).startswith("only 1 of 32 frames could be analysed in time; its deadline of 25 ms")


def test_what_a_look_takes_is_said_where_it_is_known() -> None:
    looks = Looks()
    looks.ended(Origin.CARRIED)
    assert "leaves the small model 5 ms: allow" in looks.remark(25.0, 20.0)
    looks.took(12.0)
    assert "leaves the small model 5 ms, which takes about 12 ms: allow" in looks.remark(25.0, 20.0)
