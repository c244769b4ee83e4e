"""Cells that differ most of the time stop counting, unless something is tracked there."""

import numpy as np
import pytest

from pipeline.geometry import BoxArray
from pipeline.policies.busy import BusyCells, BusySettings
from pipeline.policies.change import NO_BOXES
from pipeline.policies.small_picture import Grey

SHAPE = (50, 70)
"""No multiple of the cell's side."""
TREE = (slice(12, 24), slice(30, 42))
STEP_S = 0.2


def mask(*places: tuple[slice, slice]) -> Grey:
    out = np.zeros(SHAPE, np.uint8)
    for place in places:
        out[place] = 255
    return out


def after(seconds: float, moving: Grey, tracked: BoxArray = NO_BOXES, cells: BusyCells | None = None) -> BusyCells:
    cells = cells or BusyCells(SHAPE)
    start_s = cells._at_s if np.isfinite(cells._at_s) else 0.0
    for n in range(1, int(seconds / STEP_S) + 1):
        cells.learn(moving, tracked, start_s + n * STEP_S)
    return cells


def test_what_moved_for_a_moment_counts() -> None:
    moving = mask(TREE)
    assert (after(5, moving).quieten(moving) == moving).all()


def test_what_moves_all_the_time_stops_counting_and_only_what_is_right_beside_it_does_too() -> None:
    everything = np.full(SHAPE, 255, np.uint8)
    left = after(30, mask(TREE)).quieten(everything)
    assert not left[TREE].any()
    assert np.count_nonzero(left == 0) == 24 * 24


def test_a_place_that_is_calm_again_counts_again() -> None:
    cells = after(30, mask(TREE))
    after(120, mask(), cells=cells)
    assert (cells.quieten(mask(TREE)) == mask(TREE)).all()


def test_where_something_is_tracked_movement_always_counts() -> None:
    tracked = np.array([[28.0, 10.0, 44.0, 26.0]], np.float32)
    moving = mask(TREE)
    assert (after(60, moving, tracked).quieten(moving) == moving).all()


def test_a_track_that_comes_to_a_busy_place_makes_it_count_at_once() -> None:
    cells, moving = after(30, mask(TREE)), mask(TREE)
    after(STEP_S, moving, np.array([[28.0, 10.0, 44.0, 26.0]], np.float32), cells)
    assert (cells.quieten(moving) == moving).all()


@pytest.mark.parametrize("shape", [(1, 1), (2, 300), (144, 192)])
def test_any_shape_is_divided_into_cells(shape: tuple[int, int]) -> None:
    cells = BusyCells(shape)
    whole = np.full(shape, 255, np.uint8)
    for n in range(200):
        cells.learn(whole, np.array([[-5.0, -5.0, -1.0, -1.0], [900.0, 900.0, 950.0, 950.0]], np.float32), n * STEP_S)
    assert not cells.quieten(whole).any()


def test_time_that_falls_is_no_evidence() -> None:
    cells = BusyCells(SHAPE, BusySettings())
    for at_s in (1e6, 0.0, 1e6, 0.0):
        cells.learn(mask(TREE), NO_BOXES, at_s)
    assert (cells.quieten(mask(TREE)) == mask(TREE)).all()
