"""Attainment: in time / accepted, with hits of edge and cloud apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.metrics.attainment import Attainment

FRAMES = st.lists(st.tuples(st.booleans(), st.booleans()))


def counted(frames: list[tuple[bool, bool]]) -> Attainment:
    attainment = Attainment()
    for in_time, with_cloud in frames:
        attainment.add(in_time=in_time, with_cloud=with_cloud)
    return attainment


def test_hits_of_edge_and_cloud_are_told_apart() -> None:
    assert counted([(True, True), (True, False), (True, False), (False, True)]) == Attainment(4, 2, 1)


def test_before_the_first_frame_nothing_is_claimed() -> None:
    assert (Attainment().share, Attainment().met(0.98)) == (None, None)


@pytest.mark.parametrize(("late", "met"), [(2, True), (3, False)])
def test_the_target_is_met_at_its_very_share(late: int, met: bool) -> None:
    assert counted([(True, False)] * (100 - late) + [(False, False)] * late).met(0.98) is met


@given(FRAMES, FRAMES)
def test_merged_counts_are_those_of_all_frames(one: list[tuple[bool, bool]], other: list[tuple[bool, bool]]) -> None:
    merged = counted(one)
    merged.merge(counted(other))
    assert merged == counted(one + other)
