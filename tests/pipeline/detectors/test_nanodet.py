import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.detectors.contract import OutputContract
from pipeline.detectors.nanodet import decode, shapes
from tests.support.onnx_models import BINS, CLASSES, STRIDE, answer

CONTRACT = OutputContract(
    head="nanodet", outputs=("scores", "distances"), strides=(STRIDE,), classes=CLASSES, bins=BINS
)
INPUT_PX = (64, 96)
CELLS = 8 * 12
sides = st.tuples(*[st.floats(0, BINS - 1, width=32)] * 4)


@settings(deadline=None)
@given(st.integers(0, CELLS - 1), st.integers(0, CLASSES - 1), sides)
def test_a_box_written_as_distances_from_its_cell_comes_back(cell: int, class_id: int, far: tuple[float, ...]) -> None:
    found = decode(answer([(cell, class_id, 0.75, far)], CELLS), CONTRACT, INPUT_PX, 0.5)
    x, y = (cell % 12 + 0.5) * STRIDE, (cell // 12 + 0.5) * STRIDE
    expected = [x - far[0] * STRIDE, y - far[1] * STRIDE, x + far[2] * STRIDE, y + far[3] * STRIDE]
    np.testing.assert_allclose(found.xyxy, [expected], atol=0.01)
    assert found.score.tolist() == [0.75]
    assert found.class_id.tolist() == [class_id]
    assert found.suspect == 0


def test_cells_of_every_stride_are_decoded_with_their_own_stride() -> None:
    contract = OutputContract(head="nanodet", outputs=("a",) * 4, strides=(8, 16), classes=CLASSES, bins=BINS)
    fine, coarse = answer([(0, 0, 0.9, (0, 0, 1, 1))], 96), answer([(0, 1, 0.8, (0, 0, 1, 1))], 24)
    found = decode([fine[0], coarse[0], fine[1], coarse[1]], contract, INPUT_PX, 0.5)
    assert found.xyxy.tolist() == [[4, 4, 12, 12], [8, 8, 24, 24]]
    assert shapes(contract, INPUT_PX) == [(96, 3), (24, 3), (96, 44), (24, 44)]


def test_scores_at_the_threshold_are_kept_and_those_below_are_not() -> None:
    outputs = answer([(0, 0, 0.5, (1, 1, 1, 1)), (1, 0, 0.49, (1, 1, 1, 1))], CELLS)
    assert len(decode(outputs, CONTRACT, INPUT_PX, 0.5).score) == 1


@settings(deadline=None)
@given(st.sampled_from([float("nan"), float("inf"), -0.25, 1.5, 658.0]))
def test_a_cell_with_an_impossible_score_is_dropped_and_counted(bad: float) -> None:
    scores, distances = answer([(3, 0, 0.9, (1, 1, 1, 1)), (5, 1, 0.9, (1, 1, 1, 1))], CELLS)
    scores[5, 2] = bad
    found = decode([scores, distances], CONTRACT, INPUT_PX, 0.5)
    assert found.class_id.tolist() == [0]
    assert found.suspect == 1


def test_a_box_that_is_not_a_number_is_dropped_and_counted() -> None:
    scores, distances = answer([(3, 0, 0.9, (1, 1, 1, 1)), (5, 1, 0.9, (1, 1, 1, 1))], CELLS)
    distances[3, 7] = np.nan
    distances[5, 0] = np.inf
    found = decode([scores, distances], CONTRACT, INPUT_PX, 0.5)
    assert len(found.xyxy) == 0
    assert found.suspect == 2


def test_float16_outputs_give_float32_boxes() -> None:
    outputs = [array.astype(np.float16) for array in answer([(0, 0, 0.5, (0.5, 0.5, 1, 1))], CELLS)]
    found = decode(outputs, CONTRACT, INPUT_PX, 0.25)
    assert found.xyxy.dtype == found.score.dtype == np.dtype(np.float32)
    np.testing.assert_allclose(found.xyxy, [[0, 0, 12, 12]], atol=0.05)
