"""Rates over time and their inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.network.rate import SteppedRate, constant, interrupted

rates = st.one_of(st.just(0.0), st.floats(1.0, 1e7))
gaps = st.floats(0.01, 20.0)


@st.composite
def stepped(draw: st.DrawFn) -> SteppedRate:
    start, steps = 0.0, list[tuple[float, float]]()
    for rate in draw(st.lists(rates, max_size=8)):
        steps.append((start, rate))
        start += draw(gaps)
    return SteppedRate([*steps, (start, draw(st.floats(1.0, 1e7)))])


@given(stepped(), st.floats(0, 200), st.floats(0, 200))
def test_what_could_have_been_carried_never_falls(rate: SteppedRate, one_s: float, other_s: float) -> None:
    earlier, later = sorted((one_s, other_s))
    assert 0 <= rate.carried_bytes(earlier) <= rate.carried_bytes(later) * (1 + 1e-12) + 1e-9


@given(stepped(), st.floats(0.001, 1e8))
def test_a_position_is_reached_when_the_curve_is_there_and_not_before(rate: SteppedRate, position: float) -> None:
    at_s = rate.reached_s(position)
    assert rate.carried_bytes(at_s) == pytest.approx(position, rel=1e-6, abs=1e-3)
    assert rate.carried_bytes(at_s - max(1e-3, at_s * 1e-6)) < position


@given(stepped(), st.floats(0, 200))
def test_a_link_is_open_where_the_curve_rises(rate: SteppedRate, at_s: float) -> None:
    open_s = rate.open_s(at_s)
    assert open_s >= at_s
    assert rate.carried_bytes(open_s) == pytest.approx(rate.carried_bytes(at_s))
    assert rate.carried_bytes(open_s + 0.001) > rate.carried_bytes(open_s)


def test_an_outage_is_a_flat_part_of_the_curve() -> None:
    rate = interrupted([(0.0, 100.0), (20.0, 50.0)], [(5.0, 8.0), (19.0, 22.0)])
    assert [rate.carried_bytes(at_s) for at_s in (5.0, 7.9, 8.0, 9.0, 19.0, 22.0, 24.0)] == [
        500, 500, 500, 600, 1600, 1600, 1700,
    ]  # fmt: skip
    assert rate.reached_s(500.0) == 5.0
    assert rate.reached_s(1600.0) == 19.0
    assert rate.open_s(4.999) == 4.999
    assert rate.open_s(5.0) == 8.0
    assert rate.open_s(19.5) == 22.0


def test_a_constant_rate_is_the_same_at_any_time() -> None:
    rate = constant(1e6)
    assert rate.carried_bytes(3600.0) == 3.6e9
    assert rate.reached_s(1e6) == 1.0
    assert rate.reached_s(-5.0) == 0.0


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ([], "begin at 0 s"),
        ([(1.0, 5.0)], "begin at 0 s"),
        ([(0.0, 5.0), (3.0, 5.0), (3.0, 6.0)], "follow each other"),
        ([(0.0, -1.0), (3.0, 5.0)], "not below 0"),
        ([(0.0, 5.0), (3.0, 0.0)], "the last one is above it"),
    ],
)
def test_steps_that_make_no_sense_are_refused(steps: list[tuple[float, float]], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        SteppedRate(steps)


@pytest.mark.parametrize("outage", [(-1.0, 2.0), (3.0, 3.0), (3.0, 2.0)])
def test_an_outage_that_ends_before_it_begins_is_refused(outage: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="an outage ends after it begins"):
        interrupted([(0.0, 1.0)], [outage])
