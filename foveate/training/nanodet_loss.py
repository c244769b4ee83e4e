"""The loss of the NanoDet head against a lesson's boxes: which cells answer for an object, and how far off they are.

*Sources* Feng et al., "TOOD", ICCV 2021, section 3.2, for the assignment by score and overlap; Li et al.,
"Generalized Focal Loss", NeurIPS 2020, equations 5 and 6, for soft class scores and box distributions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from foveate.training.losses import giou
from pipeline.detectors.contract import HeightWidth

CANDIDATES = 9
"""Most cells that answer for one object."""
SCORE_POWER, OVERLAP_POWER = 0.5, 4.0
NO_FIT = 1e-9
"""Fit of a cell that knows nothing of an object yet: more than that of one outside it."""
BOX_WEIGHT, DISTRIBUTION_WEIGHT = 2.0, 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What is known of one picture: boxes (n, 4) xyxy in input pixels, their class numbers (n,), how sure the larger
    model is of each (n,) 0..1, and boxes (m, 4) about which nothing is learned.
    """

    xyxy: Tensor
    class_id: Tensor
    score: Tensor
    ignored: Tensor

    def louder(self, power: float) -> "Targets":
        """The same with scores raised to a power, which keeps their order."""
        return replace(self, score=self.score**power)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The cells of all strides in the order of the outputs: centres (cells, 2) x, y and strides (cells,) in pixels."""

    centre: Tensor
    stride: Tensor

    @classmethod
    def of(cls, input_px: HeightWidth, strides: Sequence[int]) -> "Grid":
        centres, sizes = [], []
        for stride in strides:
            rows, columns = torch.meshgrid(
                torch.arange(input_px[0] // stride), torch.arange(input_px[1] // stride), indexing="ij"
            )
            centres.append((torch.stack([columns.flatten(), rows.flatten()], dim=1) + 0.5) * stride)
            sizes.append(torch.full((rows.numel(),), float(stride)))
        return cls(torch.cat(centres), torch.cat(sizes))


def reach_of(grid: Grid, distances: Tensor) -> Tensor:
    """Distances (..., cells, 4) left, top, right, bottom in input pixels of the logits (..., cells, 4 * bins): each
    side's expectation, as the head decodes it.
    """
    bins = distances.shape[-1] // 4
    share = distances.unflatten(-1, (4, bins)).softmax(dim=-1)
    return (share * torch.arange(bins, dtype=share.dtype)).sum(dim=-1) * grid.stride[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """For one picture: the wanted score of every cell and class (cells, classes), the weight of every cell's score
    (cells,), and for the cells that answer for an object their numbers (k,), boxes (k, 4) and weights (k,).
    """

    score: Tensor
    weight: Tensor
    cell: Tensor
    xyxy: Tensor
    box_weight: Tensor


@torch.no_grad()
def assign(grid: Grid, score: Tensor, reach: Tensor, targets: Targets) -> Assignment:
    """Choose for each object the cells inside it that already know it best; the best is to say the teacher's score.

    ``score`` (cells, classes) are probabilities, ``reach`` (cells, 4) the distances. The cells of an object that fit
    it less want less, in proportion. A cell in an ignored box and in no object weighs nothing.
    """
    wanted = torch.zeros_like(score)
    unknown = _inside(grid, targets.ignored).any(dim=1) & ~_inside(grid, targets.xyxy).any(dim=1)
    weight = (~unknown).to(score.dtype)
    if len(targets.xyxy) == 0:
        none = torch.zeros(0, dtype=torch.long)
        return Assignment(wanted, weight, none, targets.xyxy, score.new_zeros(0))
    boxes = torch.cat([grid.centre - reach[:, :2], grid.centre + reach[:, 2:]], dim=1)
    fit = score[:, targets.class_id] ** SCORE_POWER * pair_iou(boxes, targets.xyxy) ** OVERLAP_POWER
    fit = (fit + NO_FIT) * _inside(grid, targets.xyxy)
    best, cells = fit.topk(min(CANDIDATES, len(fit)), dim=0)
    chosen = torch.zeros_like(fit).scatter_(0, cells, best)
    cell = torch.nonzero(chosen.amax(dim=1) > 0)[:, 0]
    owner = chosen[cell].argmax(dim=1)  # a cell between two objects answers for the one it fits better
    share = chosen[cell, owner] / fit.amax(dim=0)[owner] * targets.score[owner]
    wanted[cell, targets.class_id[owner]] = share
    return Assignment(wanted, weight, cell, targets.xyxy[owner], share)


def loss(grid: Grid, logits: Tensor, distances: Tensor, targets: Sequence[Targets]) -> Tensor:
    """The loss of a batch: class logits (batch, cells, classes), distance logits (batch, cells, 4 * bins)."""
    reach, probability = reach_of(grid, distances), logits.sigmoid()
    total = mass = logits.new_zeros(())
    for index, known in enumerate(targets):
        given = assign(grid, probability[index], reach[index], known)
        total = total + _score_loss(logits[index], given)
        total = total + _box_loss(grid, distances[index], reach[index], given)
        mass = mass + given.box_weight.sum()
    return total / mass.clamp(min=1.0)


def _score_loss(logits: Tensor, given: Assignment) -> Tensor:
    off = (given.score - logits.sigmoid()).abs() ** 2
    entropy = functional.binary_cross_entropy_with_logits(logits, given.score, reduction="none")
    return (off * entropy * given.weight[:, None]).sum()


def _box_loss(grid: Grid, distances: Tensor, reach: Tensor, given: Assignment) -> Tensor:
    if len(given.cell) == 0:
        return distances.new_zeros(())
    centre, stride = grid.centre[given.cell], grid.stride[given.cell, None]
    wanted = torch.cat([centre - given.xyxy[:, :2], given.xyxy[:, 2:] - centre], dim=1)
    overlap = (1 - giou(reach[given.cell], wanted)) * given.box_weight
    bins = distances.shape[-1] // 4
    step = (wanted / stride).clamp(0, bins - 1 - 1e-3).flatten()  # what reaches further than the bins says the last
    low = step.floor()
    chances = distances[given.cell].reshape(-1, bins).log_softmax(dim=1)
    at = low.long()[:, None]
    off = chances.gather(1, at)[:, 0] * (low + 1 - step) + chances.gather(1, at + 1)[:, 0] * (step - low)
    sides = -off.reshape(-1, 4).sum(dim=1)
    return BOX_WEIGHT * overlap.sum() + DISTRIBUTION_WEIGHT * (sides * given.box_weight).sum()


def _inside(grid: Grid, boxes: Tensor) -> Tensor:
    x, y = grid.centre[:, 0, None], grid.centre[:, 1, None]
    return (x > boxes[:, 0]) & (x < boxes[:, 2]) & (y > boxes[:, 1]) & (y < boxes[:, 3])


def pair_iou(one: Tensor, other: Tensor) -> Tensor:
    """Intersection over union (n, m) of boxes (n, 4) and (m, 4), xyxy."""
    low = torch.maximum(one[:, None, :2], other[None, :, :2])
    high = torch.minimum(one[:, None, 2:], other[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(dim=1) for boxes in (one, other)]
    return shared / (areas[0][:, None] + areas[1][None] - shared).clamp(min=1e-9)
