"""Detections against a reference: one to one, best first, ignored rows neither right nor wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.geometry import BoxArray, iou
from pipeline.metrics.matching import Score, match, score_frame, total

box = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 30), st.integers(1, 30)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)
box_lists = st.lists(box, max_size=10).map(lambda rows: np.array(rows, np.float32).reshape(-1, 4))


def boxes(*rows: tuple[float, float, float, float]) -> BoxArray:
    return np.array(rows, np.float32).reshape(-1, 4)


def test_the_best_overlap_is_served_first() -> None:
    found = boxes((0, 0, 10, 10), (2, 0, 12, 10))
    assert match(found, boxes((2, 0, 12, 10), (100, 0, 110, 10))) == [(1, 0)]
    assert match(found, boxes((1, 0, 11, 10), (2, 0, 12, 10))) == [(1, 1), (0, 0)]


@pytest.mark.parametrize(("shift", "count"), [(3.3, 1), (3.4, 0)])
def test_a_pair_needs_half_of_the_union_in_common(shift: float, count: int) -> None:
    assert len(match(boxes((0, 0, 10, 10)), boxes((shift, 0, 10 + shift, 10)))) == count


@given(box_lists, box_lists, st.floats(0.1, 0.9))
def test_pairs_are_one_to_one_close_enough_and_no_free_pair_is_left(
    found: BoxArray, reference: BoxArray, least_iou: float
) -> None:
    pairs = match(found, reference, least_iou)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    overlap = iou(found, reference)
    values = [float(overlap[i, j]) for i, j in pairs]
    assert values == sorted(values, reverse=True)
    assert all(value >= least_iou for value in values)
    free_found = [i for i in range(len(found)) if i not in {p[0] for p in pairs}]
    free_reference = [j for j in range(len(reference)) if j not in {p[1] for p in pairs}]
    assert not (overlap[np.ix_(free_found, free_reference)] >= least_iou).any()


def test_a_detection_on_an_ignored_row_is_neither_right_nor_wrong() -> None:
    found = boxes((0, 0, 10, 10), (50, 0, 60, 10), (90, 90, 99, 99))
    reference = boxes((0, 0, 10, 10), (50, 0, 60, 10), (200, 0, 210, 10), (300, 0, 310, 10))
    ignored = np.array([False, True, True, False])
    assert score_frame(found, reference, ignored) == Score(1, 1, 1)
    assert score_frame(found, reference) == Score(2, 1, 2)


def test_a_frame_where_all_is_ignored_says_nothing() -> None:
    same = boxes((0, 0, 10, 10))
    assert score_frame(same, same, np.array([True])) == Score(0, 0, 0)
    assert score_frame(boxes(), same, np.array([True])) == Score(0, 0, 0)


@given(box_lists, box_lists, st.data())
def test_every_detection_and_every_row_is_counted_once(
    found: BoxArray, reference: BoxArray, data: st.DataObject
) -> None:
    flags = data.draw(st.lists(st.booleans(), min_size=len(reference), max_size=len(reference)))
    ignored = np.array(flags, bool)
    score = score_frame(found, reference, ignored)
    neutral = sum(1 for _, j in match(found, reference) if ignored[j])
    assert score.true_positives + score.false_positives + neutral == len(found)
    assert score.true_positives + score.false_negatives == int((~ignored).sum())


def test_precision_recall_and_f1() -> None:
    score = Score(6, 2, 4)
    assert (score.precision, score.recall) == (0.75, 0.6)
    assert score.f1 == pytest.approx(2 * 0.75 * 0.6 / (0.75 + 0.6))


@pytest.mark.parametrize(
    ("score", "expected"),
    [(Score(), (1.0, 1.0, 1.0)), (Score(0, 3, 0), (0.0, 1.0, 0.0)), (Score(0, 0, 3), (1.0, 0.0, 0.0))],
    ids=["nothing there, nothing found", "only false alarms", "all missed"],
)
def test_empty_sides_have_defined_scores(score: Score, expected: tuple[float, float, float]) -> None:
    assert (score.precision, score.recall, score.f1) == expected


def test_frames_are_pooled_by_their_counts() -> None:
    assert total([Score(1, 2, 3), Score(4, 5, 6), Score()]) == Score(5, 7, 9)
    assert total([]) == Score()
