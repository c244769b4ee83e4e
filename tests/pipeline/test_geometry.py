"""Boxes: overlaps, margins, joins, suppression."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.geometry import BoxArray, Rect, Size, area, clip, coverage, intersection, iou, merge_close, nms, pad

SIZE = Size(320, 240)


def boxes(*rows: tuple[float, float, float, float]) -> BoxArray:
    return np.array(rows, np.float32).reshape(-1, 4)


corners = st.tuples(st.integers(-50, 350), st.integers(-50, 350))
box = st.tuples(st.integers(0, 300), st.integers(0, 200), st.integers(1, 100), st.integers(1, 100)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)
box_lists = st.lists(box, max_size=12).map(lambda rows: boxes(*rows))


def test_a_rectangle_knows_its_corners_and_area() -> None:
    assert Rect(2, 3, 10, 20).xyxy == (2, 3, 12, 23)
    assert Rect(2, 3, 10, 20).area == 200


@pytest.mark.parametrize(
    ("a", "b", "shared", "share"),
    [
        ((0, 0, 10, 10), (0, 0, 10, 10), 100, 1.0),
        ((0, 0, 10, 10), (5, 0, 15, 10), 50, 1 / 3),
        ((0, 0, 10, 10), (10, 0, 20, 10), 0, 0.0),
        ((0, 0, 10, 10), (2, 2, 4, 4), 4, 0.04),
        ((5, 5, 5, 9), (0, 0, 10, 10), 0, 0.0),
        ((9, 9, 1, 1), (0, 0, 10, 10), 0, 0.0),
    ],
    ids=["same", "half", "touching", "inside", "without width", "inside out"],
)
def test_overlap_of_two(
    a: tuple[int, int, int, int], b: tuple[int, int, int, int], shared: float, share: float
) -> None:
    assert intersection(boxes(a), boxes(b))[0, 0] == shared
    assert iou(boxes(a), boxes(b))[0, 0] == pytest.approx(share)


@given(box_lists, box_lists)
def test_overlap_is_symmetric_bounded_and_agrees_with_counting_pixels(a: BoxArray, b: BoxArray) -> None:
    shared, share = intersection(a, b), iou(a, b)
    assert shared.shape == share.shape == (len(a), len(b))
    assert np.array_equal(share, iou(b, a).T)
    assert ((share >= 0) & (share <= 1)).all()
    for i, (x1, y1, x2, y2) in enumerate(a.astype(int).tolist()):
        grid = np.zeros((320, 420), bool)
        grid[y1:y2, x1:x2] = True
        for j, (u1, v1, u2, v2) in enumerate(b.astype(int).tolist()):
            assert shared[i, j] == grid[v1:v2, u1:u2].sum()


def test_coverage_is_the_share_of_the_first_inside_the_second() -> None:
    assert coverage(boxes((0, 0, 10, 10)), boxes((5, 0, 100, 100))).tolist() == [[0.5]]
    assert coverage(boxes((5, 0, 105, 100)), boxes((5, 0, 15, 10))).tolist() == [[pytest.approx(0.01)]]


@given(st.lists(st.tuples(corners, corners).map(lambda c: (*c[0], *c[1])), max_size=10))
def test_clipped_boxes_lie_in_the_frame_and_lose_nothing_inside_it(rows: list[tuple[int, int, int, int]]) -> None:
    given_boxes = boxes(*rows)
    cut = clip(given_boxes, SIZE)
    assert (cut >= 0).all()
    assert (cut <= [320, 240, 320, 240]).all()
    assert np.array_equal(area(cut), intersection(given_boxes, boxes((0, 0, 320, 240)))[:, 0])


@given(box_lists, st.floats(0, 1), st.floats(0, 40))
def test_padded_boxes_hold_their_boxes_and_the_margin_and_stay_in_the_frame(
    given_boxes: BoxArray, share: float, least_px: float
) -> None:
    padded = pad(given_boxes, share, least_px, SIZE)
    inside = clip(given_boxes, SIZE)
    assert (padded >= 0).all()
    assert (padded <= [320, 240, 320, 240]).all()
    sides = given_boxes[:, 2:] - given_boxes[:, :2]
    wanted = np.maximum(sides * share, least_px)
    low, high = np.maximum(given_boxes[:, :2] - wanted, 0), np.minimum(given_boxes[:, 2:] + wanted, [320, 240])
    assert padded[:, :2] == pytest.approx(np.minimum(low, [320, 240]), abs=1e-3)
    assert padded[:, 2:] == pytest.approx(high, abs=1e-3)
    assert (padded[:, :2] <= inside[:, :2]).all()
    assert (padded[:, 2:] >= inside[:, 2:]).all()


def test_close_boxes_are_joined_and_distant_ones_are_not() -> None:
    joined = merge_close(boxes((0, 0, 10, 10), (8, 0, 18, 10), (100, 100, 110, 110)), 1.2)
    assert sorted(joined.tolist()) == [[0, 0, 18, 10], [100, 100, 110, 110]]


def test_a_chain_of_close_boxes_becomes_one() -> None:
    chain = boxes(*((n * 9.0, 0, n * 9.0 + 10, 10) for n in range(12)))
    assert merge_close(chain, 1.05).tolist() == [[0, 0, 109, 10]]


def test_a_box_inside_another_is_swallowed() -> None:
    assert merge_close(boxes((0, 0, 100, 100), (10, 10, 20, 20)), 1.01).tolist() == [[0, 0, 100, 100]]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_and_one_box_stay_as_they_are(count: int) -> None:
    given_boxes = boxes(*[(1, 2, 3, 4)] * count)
    assert np.array_equal(merge_close(given_boxes, 1.4), given_boxes)
    assert np.array_equal(pad(given_boxes, 0, 0, SIZE), given_boxes)


@given(box_lists, st.floats(1.0, 2.0))
def test_joining_covers_every_box_stays_within_their_hull_and_leaves_no_close_pair(
    given_boxes: BoxArray, slack: float
) -> None:
    before = given_boxes.copy()
    joined = merge_close(given_boxes, slack)
    assert np.array_equal(given_boxes, before)
    assert len(joined) <= len(given_boxes)
    if len(given_boxes):
        assert (coverage(given_boxes, joined).max(axis=1) >= 1 - 1e-6).all()
        assert joined[:, :2].min() >= given_boxes[:, :2].min()
        assert joined[:, 2:].max() <= given_boxes[:, 2:].max()
    for i in range(len(joined)):
        for j in range(i):
            hull = np.concatenate([np.minimum(joined[i, :2], joined[j, :2]), np.maximum(joined[i, 2:], joined[j, 2:])])
            assert area(hull[None])[0] >= slack * (area(joined[i : i + 1])[0] + area(joined[j : j + 1])[0]) * (1 - 1e-5)


@given(
    st.lists(st.tuples(box, st.floats(0, 1, width=32)), max_size=30),
    st.sampled_from([0.3, 0.5, 0.7]),
)
def test_suppression_keeps_what_a_plain_loop_keeps(
    rows: list[tuple[tuple[int, int, int, int], float]], threshold: float
) -> None:
    given_boxes = boxes(*(r[0] for r in rows))
    scores = np.array([r[1] for r in rows], np.float32)
    expected: list[int] = []
    for i in np.argsort(-scores, kind="stable").tolist():
        if all(iou(given_boxes[i : i + 1], given_boxes[j : j + 1])[0, 0] <= threshold for j in expected):
            expected.append(i)
    assert nms(given_boxes, scores, threshold).tolist() == expected


def test_suppression_agrees_across_its_blocks() -> None:
    rng = np.random.default_rng(1)
    low = rng.uniform(0, 200, (400, 2))
    many = np.concatenate([low, low + rng.uniform(10, 60, (400, 2))], axis=1).astype(np.float32)
    scores = rng.uniform(0, 1, 400).astype(np.float32)
    kept = nms(many, scores, 0.4)
    assert 0 < len(kept) < 400
    assert (np.diff(scores[kept]) <= 0).all()
    among = iou(many[kept], many[kept])
    np.fill_diagonal(among, 0)
    assert among.max() <= 0.4
    dropped = np.setdiff1d(np.arange(400), kept)
    above = iou(many[dropped], many[kept]) > 0.4
    better = scores[kept][None, :] >= scores[dropped][:, None]
    assert (above & better).any(axis=1).all()
