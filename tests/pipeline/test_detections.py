"""Detections are rows of equal arrays that nobody can change."""

import numpy as np
import pytest

from pipeline.detections import Detections, Source

TWO = Detections.of([[0, 0, 1, 1], [2, 2, 3, 3]], [0.5, 0.9], ["person", "a longer name"], Source.CLOUD, [7, -1])


def test_they_are_built_from_anything_that_numpy_takes() -> None:
    assert len(TWO) == 2
    assert [array.dtype.name for array in (TWO.xyxy, TWO.score, TWO.track_id)] == ["float32", "float32", "int64"]
    assert TWO.source.tolist() == ["cloud", "cloud"]
    assert Detections.of([0, 0, 1, 1], 0.5, "person").track_id.tolist() == [-1]


def test_none_has_the_right_shapes() -> None:
    none = Detections.none()
    assert len(none) == 0
    assert none.xyxy.shape == (0, 4)
    assert Detections.concat([]).xyxy.shape == (0, 4)


@pytest.mark.parametrize("field", ["xyxy", "score", "label", "source", "track_id"])
def test_their_arrays_are_read_only(field: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(TWO, field)[0] = getattr(TWO, field)[1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Detections.of([[0, 0, 1, 1]], [0.5, 0.6], ["person"]),
        lambda: Detections.of([[0, 0, 1, 1]], [0.5], []),
        lambda: Detections.of([[0, 0, 1, 1]], [0.5], ["person"], Source.EDGE, [1, 2]),
        lambda: Detections(
            np.zeros((1, 5), np.float32), TWO.score[:1], TWO.label[:1], TWO.source[:1], TWO.track_id[:1]
        ),
    ],
    ids=["scores", "labels", "track ids", "box format"],
)
def test_arrays_that_do_not_fit_together_are_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=r"arrays of different length|track ids for"):
        wrong()


def test_rows_are_selected_together() -> None:
    chosen = TWO.select(np.array([False, True]))
    assert (chosen.label.tolist(), chosen.track_id.tolist()) == (["a longer name"], [-1])
    assert TWO.select([1, 0]).score.tolist() == pytest.approx([0.9, 0.5])
    assert len(TWO.select([])) == 0


def test_other_boxes_leave_the_rest_as_it_is() -> None:
    moved = TWO.with_boxes(TWO.xyxy + 1)
    assert moved.xyxy.tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert moved.label.tolist() == TWO.label.tolist()


def test_parts_are_joined_in_order_and_no_name_is_cut() -> None:
    joined = Detections.concat([Detections.of([[5, 5, 6, 6]], [0.1], ["x"]), Detections.none(), TWO])
    assert joined.label.tolist() == ["x", "person", "a longer name"]
    assert joined.source.tolist() == ["edge", "cloud", "cloud"]
    assert joined.track_id.tolist() == [-1, 7, -1]
