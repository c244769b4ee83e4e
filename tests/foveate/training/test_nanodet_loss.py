import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.training.nanodet_loss import CANDIDATES, Grid, Targets, assign, loss, pair_iou, reach_of
from pipeline.detectors.contract import OutputContract
from pipeline.detectors.nanodet import decode
from pipeline.geometry import iou

INPUT_PX, STRIDES, BINS = (64, 96), (8, 16), 8
GRID = Grid.of(INPUT_PX, STRIDES)
CELLS = len(GRID.stride)


def known(boxes: list[list[float]], ignored: list[list[float]] | None = None, score: float = 0.8) -> Targets:
    return Targets(
        torch.tensor(boxes).reshape(-1, 4),
        torch.zeros(len(boxes), dtype=torch.long),
        torch.full((len(boxes),), score),
        torch.tensor(ignored or []).reshape(-1, 4),
    )


def test_distances_are_decoded_as_the_detector_decodes_them() -> None:
    torch.manual_seed(0)
    logits, score = torch.randn(CELLS, 4 * BINS), torch.full((CELLS, 1), 0.9)
    reach = reach_of(GRID, logits)
    boxes = torch.cat([GRID.centre - reach[:, :2], GRID.centre + reach[:, 2:]], dim=1)
    counts = [INPUT_PX[0] // s * (INPUT_PX[1] // s) for s in STRIDES]
    contract = OutputContract(head="nanodet", outputs=("a", "b", "c", "d"), strides=STRIDES, classes=1, bins=BINS)
    outputs = [part.numpy() for tensor in (score, logits) for part in tensor.split(counts)]
    np.testing.assert_allclose(decode(outputs, contract, INPUT_PX, 0.1).xyxy, boxes.numpy(), atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(0, 4), classes=st.integers(1, 3))
def test_only_cells_inside_an_object_answer_for_it_and_none_wants_more_than_the_teacher_says(
    seed: int, count: int, classes: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    low = torch.rand((count, 2), generator=random) * 60
    boxes = torch.cat([low, low + 2 + torch.rand((count, 2), generator=random) * 30], dim=1)
    class_id = torch.randint(classes, (count,), generator=random)
    targets = Targets(boxes, class_id, torch.rand(count, generator=random), torch.zeros(0, 4))
    score = torch.rand((CELLS, classes), generator=random)
    given_to = assign(GRID, score, torch.rand((CELLS, 4), generator=random) * 30, targets)
    centre = GRID.centre[given_to.cell]
    assert bool(((centre > given_to.xyxy[:, :2]) & (centre < given_to.xyxy[:, 2:])).all())
    assert len(given_to.cell) <= CANDIDATES * count
    assert len(set(given_to.cell.tolist())) == len(given_to.cell)
    assert float(given_to.score.max()) <= float(targets.score.max() if count else 0) + 1e-6
    quiet = torch.ones(CELLS, dtype=torch.bool)
    quiet[given_to.cell] = False
    assert float(given_to.score[quiet].abs().sum()) == 0


def test_the_cell_that_fits_best_is_to_say_the_score_of_the_teacher() -> None:
    targets = known([[8, 8, 56, 56]], score=0.47)
    reach = torch.full((CELLS, 4), 24.0)
    given_to = assign(GRID, torch.full((CELLS, 1), 0.5), reach, targets)
    assert torch.isclose(given_to.score.max(), torch.tensor(0.47))


def test_nothing_is_learned_in_an_ignored_box_but_where_an_object_is_known() -> None:
    logits = torch.zeros(1, CELLS, 1, requires_grad=True)
    loss(GRID, logits, torch.zeros(1, CELLS, 4 * BINS), [known([], [[0, 0, 48, 64]])]).backward()
    assert logits.grad is not None
    silent = GRID.centre[:, 0] < 48
    assert bool((logits.grad[0, silent] == 0).all())
    assert bool((logits.grad[0, ~silent] > 0).all())

    again = torch.zeros(1, CELLS, 1, requires_grad=True)
    loss(GRID, again, torch.zeros(1, CELLS, 4 * BINS), [known([[0, 0, 48, 64]], [[0, 0, 48, 64]])]).backward()
    assert again.grad is not None
    assert bool((again.grad[0, silent] != 0).all())


def test_following_the_gradient_finds_the_object_and_leaves_the_rest_empty() -> None:
    torch.manual_seed(0)
    logits = torch.full((1, CELLS, 1), -2.0, requires_grad=True)
    distances = torch.zeros(1, CELLS, 4 * BINS, requires_grad=True)
    target = known([[10, 12, 40, 50]])
    optimizer = torch.optim.Adam([logits, distances], lr=0.2)
    for _ in range(150):
        optimizer.zero_grad()
        loss(GRID, logits, distances, [target]).backward()
        optimizer.step()
    score = logits.detach().sigmoid()[0, :, 0]
    best = int(score.argmax())
    reach = reach_of(GRID, distances.detach())[0, best]
    box = torch.cat([GRID.centre[best] - reach[:2], GRID.centre[best] + reach[2:]])
    assert float(pair_iou(box[None], target.xyxy)) > 0.9
    assert abs(float(score[best]) - 0.8) < 0.1
    outside = (GRID.centre[:, 0] > 40) | (GRID.centre[:, 1] > 50)
    assert float(score[outside].max()) < 0.2


def test_overlaps_are_those_of_the_geometry() -> None:
    a = np.array([[0, 0, 10, 10], [5, 5, 9, 20]], np.float32)
    b = np.array([[5, 0, 15, 10], [50, 50, 60, 60]], np.float32)
    np.testing.assert_allclose(pair_iou(torch.from_numpy(a), torch.from_numpy(b)).numpy(), iou(a, b), atol=1e-6)
