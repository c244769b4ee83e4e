import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from pipeline.detectors.centre import decode, shapes
from pipeline.detectors.contract import OutputContract

STRIDE = 4
ROWS, COLUMNS, CLASSES = 3, 5, 2
INPUT_PX = (ROWS * STRIDE, COLUMNS * STRIDE)
CONTRACT = OutputContract(head="centre", outputs=("score", "reach"), strides=(STRIDE,), classes=CLASSES)
scores = npst.arrays(
    np.float32, (CLASSES, ROWS, COLUMNS), elements=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, -0.5, 1.5, float("nan")])
)
reaches = npst.arrays(
    np.float32, (4, ROWS, COLUMNS), elements=st.sampled_from([0.0, 1.5, 40.0, float("inf"), float("nan")])
)


def slowly(score: NDArray[np.float32], reach: NDArray[np.float32], min_score: float) -> tuple[list[object], int]:
    """The same, cell by cell."""
    found: list[object] = []
    suspect = 0
    for class_id in range(CLASSES):
        for row in range(ROWS):
            for column in range(COLUMNS):
                p = float(score[class_id, row, column])
                if p == 0 or 0 <= p < min_score:
                    continue
                left, top, right, bottom = (float(side) for side in reach[:, row, column])
                x, y = (column + 0.5) * STRIDE, (row + 0.5) * STRIDE
                box = (x - left, y - top, x + right, y + bottom)
                if 0 <= p <= 1 and np.isfinite(box).all():
                    found.append((box, p, class_id))
                else:
                    suspect += 1
    return found, suspect


@settings(deadline=None)
@given(scores, reaches, st.sampled_from([0.0, 0.25, 0.3, 1.0]))
def test_cells_are_decoded_as_one_by_one(
    score: NDArray[np.float32], reach: NDArray[np.float32], min_score: float
) -> None:
    found = decode([score, reach], CONTRACT, INPUT_PX, min_score)
    expected, suspect = slowly(score, reach, min_score)
    boxes = [tuple(box) for box in found.xyxy.tolist()]
    assert list(zip(boxes, found.score.tolist(), found.class_id.tolist(), strict=True)) == expected
    assert found.suspect == suspect


def test_an_answer_has_a_score_per_class_and_four_distances_per_cell() -> None:
    assert shapes(CONTRACT, (192, 256)) == [(CLASSES, 48, 64), (4, 48, 64)]


@pytest.mark.parametrize("min_score", [0.0, 0.5])
def test_a_heatmap_without_peaks_gives_nothing(min_score: float) -> None:
    found = decode(
        [np.zeros((CLASSES, ROWS, COLUMNS), np.float32), np.ones((4, ROWS, COLUMNS), np.float32)],
        CONTRACT,
        INPUT_PX,
        min_score,
    )
    assert found.xyxy.shape == (0, 4)
    assert found.suspect == 0
