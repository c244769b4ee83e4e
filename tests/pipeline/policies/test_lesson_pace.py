"""How often whole frames are asked about for lessons alone."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.lesson_pace import LONGEST_S, RICH, PaceView, look_hindrance

NEW = PaceView(since_s=None, lessons=0)


def test_the_first_frame_is_asked_about_at_once_and_the_next_ones_at_the_rate() -> None:
    assert look_hindrance(NEW, 30.0, 0.25) == ""
    assert look_hindrance(replace(NEW, since_s=1.9), 30.0, 0.25) == "one was asked about lately"
    assert look_hindrance(replace(NEW, since_s=2.0), 30.0, 0.25) == ""


def test_the_richer_the_store_the_rarer_the_looks() -> None:
    rich = replace(NEW, lessons=3 * RICH)
    assert look_hindrance(replace(rich, since_s=5.9), 30.0, 0.25)
    assert look_hindrance(replace(rich, since_s=6.0), 30.0, 0.25) == ""
    assert look_hindrance(replace(NEW, lessons=10**6, since_s=LONGEST_S), 30.0, 0.25) == ""


def test_nothing_is_asked_while_others_use_the_uplink() -> None:
    assert look_hindrance(replace(NEW, fill=0.8), 30.0, 0.25) == "the uplink is in use"
    assert look_hindrance(replace(NEW, fill=1.0), 30.0, 0.25) == ""


def test_nobody_asks_where_none_are_wanted() -> None:
    assert look_hindrance(NEW, 0.0, 0.25) == "none are wanted"
    assert look_hindrance(replace(NEW, rate_bytes_s=1000.0), 30.0, 0.0) == "there is no uplink for them"


@given(st.floats(100, 1e6), st.floats(1000, 50_000), st.floats(0.01, 1), st.floats(0, 600), st.integers(0, 5000))
def test_looks_never_take_more_than_their_share_of_the_budget(
    rate_bytes_s: float, frame_bytes: float, share: float, since_s: float, lessons: int
) -> None:
    view = PaceView(since_s, lessons, 1.0, rate_bytes_s, frame_bytes)
    if look_hindrance(view, 30.0, share) == "":
        assert frame_bytes <= share * rate_bytes_s * since_s * (1 + 1e-9)
        assert since_s >= 2.0
