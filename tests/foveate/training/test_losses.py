import numpy as np
import pytest
import torch

from foveate.training.losses import centre_loss, giou, reach_loss
from foveate.training.targets import Answers, targets
from pipeline.geometry import iou

INPUT_PX = (32, 32)


def known(ignored: list[list[float]]) -> list[torch.Tensor]:
    made = targets(
        Answers(np.array([[8, 8, 16, 16]], np.float32), np.array([0]), np.array(ignored, np.float32).reshape(-1, 4)),
        1,
        INPUT_PX,
    )
    return [torch.from_numpy(each)[None] for each in (made.heat, made.counted, made.reach, made.weight)]


def test_an_ignored_region_gives_no_loss_and_no_gradient() -> None:
    heat, counted, _, _ = known([[20, 20, 32, 32]])
    logits = torch.full((1, 1, 8, 8), -9.0)
    logits[0, 0, 6, 6] = 9.0
    logits.requires_grad_()
    with_region = centre_loss(logits, heat, counted, torch.ones(1))
    with_region.backward()
    assert logits.grad[0, 0, 6, 6] == 0
    without = centre_loss(logits, heat, torch.ones_like(counted), torch.ones(1))
    assert without > with_region + 5


def test_loss_falls_from_nothing_found_to_all_found() -> None:
    heat, counted, _, _ = known([])
    blind = torch.full((1, 1, 8, 8), -9.0)
    right = torch.where(heat >= 1, 9.0, -9.0)
    assert centre_loss(right, heat, counted, torch.ones(1)) < 0.01 < centre_loss(blind, heat, counted, torch.ones(1))


def test_a_class_counts_as_much_as_its_weight() -> None:
    heat, counted, _, _ = known([])
    logits = torch.zeros(1, 1, 8, 8)
    once, thrice = (centre_loss(logits, heat, counted, torch.tensor([weight])) for weight in (1.0, 3.0))
    assert thrice.item() == pytest.approx(3 * once.item())


def test_distances_count_where_there_is_an_object_alone() -> None:
    _, _, reach, weight = known([])
    exact = torch.where(weight[:, None] > 0, reach, torch.full_like(reach, 7.0))
    assert reach_loss(exact, reach, weight).item() == pytest.approx(0, abs=1e-6)
    assert reach_loss(exact + 3, reach, weight).item() > 0.1


def test_generalised_overlap_is_the_overlap_less_the_share_that_neither_fills() -> None:
    a, b = torch.tensor([[2.0, 1.0, 2.0, 3.0]]), torch.tensor([[1.0, 2.0, 4.0, 1.0]])
    boxes = [np.array([[-left, -top, right, bottom]], np.float32) for left, top, right, bottom in (a[0], b[0])]
    around, union = 6 * 5, 4 * 4 + 5 * 3 - 3 * 2
    expected = iou(*boxes)[0, 0] - (around - union) / around
    assert giou(a, b).item() == pytest.approx(float(expected), abs=1e-6)
