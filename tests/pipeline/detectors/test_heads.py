import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pipeline.detectors.contract import OutputContract
from pipeline.detectors.heads import MAX_CANDIDATES, Candidates, finish
from pipeline.detectors.preprocess import Placement
from pipeline.geometry import BoxArray, Size, iou, nms

LABELS = np.array(["a", "b", "c"])
PLAIN = Placement(Size(640, 480), Size(640, 480), 0, 0, (480, 640))


def contract(max_detections: int = 300) -> OutputContract:
    return OutputContract(
        head="nanodet", outputs=("s", "d"), strides=(8,), classes=3, bins=11, max_detections=max_detections
    )


def candidates(boxes: object, scores: object, classes: object) -> Candidates:
    return Candidates(
        np.array(boxes, np.float32).reshape(-1, 4), np.array(scores, np.float32), np.array(classes, np.intp), 0
    )


def test_overlapping_boxes_of_one_class_become_one_and_of_two_classes_stay_two() -> None:
    boxes = [[10, 10, 50, 50], [11, 10, 51, 50], [10, 10, 50, 50]]
    found = finish(candidates(boxes, [0.6, 0.9, 0.7], [0, 0, 1]), PLAIN, contract(), LABELS)
    assert found.label.tolist() == ["a", "b"]
    assert found.xyxy.tolist() == [boxes[1], boxes[2]]


def test_boxes_are_cut_to_the_picture_and_those_outside_it_or_empty_vanish() -> None:
    boxes = [[-20, -5, 30, 40], [700, 10, 800, 60], [50, 50, 50, 50]]
    found = finish(candidates(boxes, [0.9, 0.8, 0.7], [0, 0, 0]), PLAIN, contract(), LABELS)
    assert found.xyxy.tolist() == [[0, 0, 30, 40]]


def test_no_more_than_the_declared_number_of_detections_comes_out_and_the_best_come_first() -> None:
    corners = np.array([[x * 20, y * 20] for x in range(30) for y in range(20)], np.float32)
    scores = np.random.default_rng(1).random(len(corners))
    found = finish(
        candidates(np.hstack([corners, corners + 10]), scores, np.zeros(len(corners))), PLAIN, contract(25), LABELS
    )
    np.testing.assert_allclose(found.score, np.sort(scores)[::-1][:25], atol=1e-6)


def test_a_flood_of_candidates_is_limited_before_suppression() -> None:
    corners = np.random.default_rng(2).uniform(0, 400, (8400, 2))
    flood = candidates(np.hstack([corners, corners + 30]), np.full(8400, 0.9), np.arange(8400) % 3)
    found = finish(flood, PLAIN, contract(MAX_CANDIDATES), LABELS)
    assert 0 < len(found) <= MAX_CANDIDATES


@settings(deadline=None)
@given(
    hnp.arrays(np.float32, st.tuples(st.integers(0, 300), st.just(4)), elements=st.floats(0, 60, width=16)),
    st.floats(0.1, 0.9),
)
def test_suppression_in_blocks_keeps_what_one_by_one_suppression_keeps(corners: BoxArray, threshold: float) -> None:
    boxes = np.hstack([np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])])
    scores = np.random.default_rng(len(boxes)).random(len(boxes)).astype(np.float32)
    assert nms(boxes, scores, threshold).tolist() == suppress_one_by_one(boxes, scores, threshold)


def suppress_one_by_one(boxes: BoxArray, scores: NDArray[np.float32], threshold: float) -> list[int]:
    overlap = iou(boxes, boxes)
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        if all(overlap[other, index] <= threshold for other in kept):
            kept.append(int(index))
    return kept
