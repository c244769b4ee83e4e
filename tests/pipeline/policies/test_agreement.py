"""Agreement is counted over whole frames, and what was long ago fades."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.agreement import Agreement

audits = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20)), max_size=50)


def of(*frames: tuple[int, int, int]) -> Agreement:
    out = Agreement()
    for same, edge, cloud in frames:
        out = out.add(same, edge, cloud)
    return out


def test_nothing_is_said_before_some_frames_were_compared() -> None:
    assert of((3, 3, 3), (3, 3, 3)).f1 is None
    assert of((3, 3, 3), (3, 3, 3), (3, 3, 3)).f1 == 1.0


def test_empty_scenes_agree() -> None:
    assert of(*[(0, 0, 0)] * 5).f1 == 1.0


def test_it_is_the_f1_of_the_edge_against_the_cloud() -> None:
    assert of(*[(4, 5, 6)] * 3).f1 == pytest.approx(8 / 11)


def test_what_was_long_ago_fades() -> None:
    agreement = of(*[(0, 5, 5)] * 10, *[(5, 5, 5)] * 20)
    assert agreement.f1 is not None
    assert agreement.f1 > 0.98


@given(audits)
def test_it_is_a_share(frames: list[tuple[int, int, int]]) -> None:
    f1 = of(*[(min(same, edge, cloud), edge, cloud) for same, edge, cloud in frames]).f1
    assert f1 is None or 0.0 <= f1 <= 1.0
