"""Filters follow boxes that move at constant speed, whatever the sampling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np
from numpy.typing import NDArray

from edge_agent.tracking import kalman
from edge_agent.tracking.kalman import BoxFilter, Noise
from pipeline.geometry import BoxArray

NOISE = Noise()


def exact(rows: BoxArray) -> NDArray[np.float64]:
    """The deviation of boxes that the larger model has found."""
    return np.full(len(rows), NOISE.measurement)


def update(filters: BoxFilter, rows: BoxArray) -> BoxFilter:
    return kalman.update(filters, rows, exact(rows))


def boxes(*rows: tuple[float, float, float, float]) -> BoxArray:
    return np.array(rows, np.float32).reshape(-1, 4)


corner = st.floats(-5000, 5000, width=32)
side = st.floats(0.0, 4000, width=32)
any_box = st.tuples(corner, corner, side, side).map(lambda b: boxes((b[0], b[1], b[0] + b[2], b[1] + b[3])))


def test_a_filter_starts_at_rest_at_its_box() -> None:
    started = kalman.start(boxes((10, 20, 30, 60)), NOISE)
    assert started.position.tolist() == [[20, 40, 20, 40]]
    assert started.velocity.tolist() == [[0, 0, 0, 0]]
    assert started.xyxy.tolist() == [[10, 20, 30, 60]]


def test_a_steady_speed_is_learned_from_irregular_samples() -> None:
    rng = np.random.default_rng(1)
    filters, at_s = kalman.start(boxes((0, 0, 20, 40)), NOISE), 0.0
    for gap_s in rng.uniform(0.04, 0.5, 60):
        at_s += gap_s
        x, y = 30 * at_s, -12 * at_s
        filters = update(kalman.predict(filters, gap_s, NOISE), boxes((x, y, x + 20, y + 40)))
    assert filters.velocity[0, :2] == pytest.approx([30, -12], abs=0.5)
    ahead = kalman.predict(filters, 0.4, NOISE)
    assert ahead.xyxy[0, :2] == pytest.approx([30 * (at_s + 0.4), -12 * (at_s + 0.4)], abs=1.0)


def test_the_variance_of_the_position_agrees_with_the_matrix_form() -> None:
    filters = kalman.predict(kalman.start(boxes((0, 0, 20, 40)), NOISE), 0.3, NOISE)
    corrected = update(filters, boxes((3, 1, 24, 43)))
    pp, pv, vv = (float(v[0, 0]) for v in filters.variances)
    covariance, measured = np.array([[pp, pv], [pv, vv]]), np.array([[1.0, 0.0]])
    gain = covariance @ measured.T / (covariance[0, 0] + (NOISE.measurement * 42) ** 2)
    expected = (np.eye(2) - gain @ measured) @ covariance
    assert [float(v[0, 0]) for v in corrected.variances] == pytest.approx(
        [expected[0, 0], expected[0, 1], expected[1, 1]]
    )


def test_the_surer_a_measurement_the_nearer_the_filter_comes_to_it() -> None:
    filters = kalman.predict(kalman.start(boxes((0, 0, 20, 40), (0, 0, 20, 40)), NOISE), 0.2, NOISE)
    corrected = kalman.update(filters, boxes((8, 0, 28, 40), (8, 0, 28, 40)), np.array([0.02, 0.2]))
    assert 8 > corrected.position[0, 0] - 10 > corrected.position[1, 0] - 10 > 0


@given(any_box, st.lists(st.tuples(st.floats(0.0, 5.0), any_box), max_size=30))
def test_variances_stay_positive_and_everything_finite(first: BoxArray, steps: list[tuple[float, BoxArray]]) -> None:
    filters = kalman.start(first, NOISE)
    for by_s, seen in steps:
        filters = update(kalman.predict(filters, by_s, NOISE), seen)
        pp, pv, vv = filters.variances
        assert np.isfinite(filters.state).all()
        assert (pp > 0).all()
        assert (vv > 0).all()
        assert (pv**2 <= pp * vv * (1 + 1e-9)).all()
        assert (filters.xyxy[:, 2:] > filters.xyxy[:, :2]).all()


@given(any_box, st.floats(0.001, 2.0), st.floats(0.001, 2.0))
def test_two_predictions_end_where_one_does(first: BoxArray, a_s: float, b_s: float) -> None:
    filters = update(kalman.predict(kalman.start(first, NOISE), 0.2, NOISE), first + 5)
    twice = kalman.predict(kalman.predict(filters, a_s, NOISE), b_s, NOISE)
    once = kalman.predict(filters, a_s + b_s, NOISE)
    assert twice.position[:, :2] == pytest.approx(once.position[:, :2], rel=1e-9, abs=1e-6)


@given(st_np.arrays(np.float32, (5, 4), elements=st.floats(0, 1000, width=32)), st.permutations(range(5)))
def test_filters_do_not_influence_each_other(rows: NDArray[np.float32], order: list[int]) -> None:
    together = kalman.predict(kalman.start(rows, NOISE), 0.2, NOISE)
    together = update(together, rows[::-1])
    for row in range(5):
        alone = kalman.predict(kalman.start(rows[row : row + 1], NOISE), 0.2, NOISE)
        alone = update(alone, rows[4 - row : 5 - row])
        assert np.array_equal(alone.state[:, 0], together.state[:, row])


def test_nothing_moves_without_time_and_nothing_is_changed_in_place() -> None:
    filters = kalman.start(boxes((0, 0, 20, 40), (5, 5, 9, 9)), NOISE)
    before = filters.state.copy()
    assert kalman.predict(filters, 0.0, NOISE) is filters
    assert kalman.predict(filters, -1.0, NOISE) is filters
    update(kalman.predict(filters, 1.0, NOISE), boxes((1, 1, 2, 2), (3, 3, 4, 4)))
    filters.put(np.array([1]), kalman.start(boxes((0, 0, 1, 1)), NOISE))
    assert np.array_equal(filters.state, before)


def test_filters_are_selected_replaced_and_joined_by_rows() -> None:
    filters = kalman.start(boxes((0, 0, 20, 40), (5, 5, 9, 9), (1, 2, 3, 4)), NOISE)
    assert filters.select(np.array([2, 0])).xyxy.tolist() == [[1, 2, 3, 4], [0, 0, 20, 40]]
    replaced = filters.put(np.array([1]), kalman.start(boxes((7, 7, 8, 8)), NOISE))
    assert replaced.xyxy.tolist() == [[0, 0, 20, 40], [7, 7, 8, 8], [1, 2, 3, 4]]
    assert kalman.join(filters, replaced).xyxy.shape == (6, 4)
    assert len(kalman.join(BoxFilter.none(), filters)) == 3
    assert len(kalman.predict(BoxFilter.none(), float("inf"), NOISE)) == 0


def test_a_box_without_extent_stays_a_box() -> None:
    assert kalman.start(boxes((5, 5, 5, 5)), NOISE).xyxy.tolist() == [[4.5, 4.5, 5.5, 5.5]]
