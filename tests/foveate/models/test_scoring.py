from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.models.scoring import Truth, as_truth, best_f1, read_mot, score
from pipeline.detections import Detections
from pipeline.errors import ConfigError
from pipeline.metrics.matching import Score


def truth(boxes: list[list[float]], ignored: list[bool] | None = None, label: str = "person") -> Truth:
    array = np.array(boxes, np.float32).reshape(-1, 4)
    hidden = np.array(ignored if ignored is not None else [False] * len(array), dtype=bool)
    return Truth(array, np.array([label] * len(array), dtype=np.str_), hidden)


def found(boxes: list[list[float]], label: str = "person") -> Detections:
    return Detections.of(boxes, [0.9] * len(boxes), [label] * len(boxes))


A, B, FAR = [0.0, 0, 100, 100], [0.0, 0, 100, 80], [500.0, 500, 600, 600]


def test_the_best_overlap_is_matched_first_and_each_box_once() -> None:
    assert score(found([B, A]), truth([A])) == Score(1, 1, 0)
    assert score(found([A]), truth([B, A])) == Score(1, 0, 1)
    assert score(found([A, FAR]), truth([A, B])) == Score(1, 1, 1)


def test_a_match_with_an_ignored_row_is_neither_right_nor_wrong() -> None:
    assert score(found([A]), truth([A], [True])) == Score()
    assert score(found([]), truth([A], [True])) == Score()


def test_another_label_never_matches() -> None:
    assert score(found([A], "dog"), truth([A])) == Score(0, 1, 1)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 50)] * 4), max_size=8), st.lists(st.tuples(*[st.integers(0, 50)] * 4)))
def test_every_detection_and_every_true_box_is_counted_once(
    rows: list[tuple[int, ...]], targets: list[tuple[int, ...]]
) -> None:
    boxes = [[x, y, x + w + 1.0, y + h + 1.0] for x, y, w, h in rows]
    true = [[x, y, x + w + 1.0, y + h + 1.0] for x, y, w, h in targets]
    counted = score(found(boxes), truth(true))
    assert counted.true_positives + counted.false_positives == len(boxes)
    assert counted.true_positives + counted.false_negatives == len(true)


def test_f1_is_that_of_the_best_threshold_and_of_the_named_labels() -> None:
    detections = Detections.of([A, FAR, [300, 0, 400, 100]], [0.9, 0.4, 0.8], ["person", "person", "dog"])
    assert best_f1({1: detections}, {1: truth([A])}, ["person"]) == pytest.approx(1.0)
    assert best_f1({1: detections}, {1: truth([A])}, None) == pytest.approx(2 / 3)
    assert best_f1({1: detections, 2: Detections.none()}, {2: truth([A])}, ["person"]) == 0


def test_sure_detections_serve_as_truth_with_their_own_labels() -> None:
    reference = as_truth(Detections.of([A, FAR], [0.9, 0.4], ["person", "dog"]), 0.5)
    assert (reference.xyxy.tolist(), reference.label.tolist()) == ([A], ["person"])


def test_mot_rows_become_boxes_by_frame_and_conf_0_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "gt.txt"
    path.write_text("1,4,10,20,30,40,1,-1,-1,-1\n1,5,0,0,5,5,0,-1,-1,-1\n3,4,11,20,30,40,1,-1,-1,-1\n")
    rows = read_mot(path, "person")
    assert sorted(rows) == [1, 3]
    assert rows[1].xyxy.tolist() == [[10, 20, 40, 60], [0, 0, 5, 5]]
    assert rows[1].label.tolist() == ["person", "person"]
    assert rows[1].ignored.tolist() == [False, True]


@pytest.mark.parametrize("text", ["a video, not numbers", "1,2,3\n", ""])
def test_a_file_that_is_no_ground_truth_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gt.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match="MOT ground truth"):
        read_mot(path, "person")
