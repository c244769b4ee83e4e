"""How wrong a student is: penalty-reduced focal loss on centres, generalised IoU loss on distances.

*Source* Law and Deng, "CornerNet", ECCV 2018, section 3.2, equation 1 (alpha 2, beta 4); Rezatofighi et al.,
"Generalized Intersection over Union", CVPR 2019, algorithm 1; their weighting as in "TTFNet" (see ``targets.py``).
"""

import torch
from torch import Tensor
from torch.nn import functional

REACH_WEIGHT = 2.0


def centre_loss(logits: Tensor, heat: Tensor, counted: Tensor, class_weight: Tensor) -> Tensor:
    """The mean per object. All (batch, classes, rows, columns) but ``class_weight`` (classes,)."""
    peak = (heat >= 1).to(logits.dtype)
    probability = torch.sigmoid(logits)
    # Of log(p) and log(1 - p) the forms that do not overflow.
    hit = (1 - probability).square() * functional.logsigmoid(logits)
    miss = (1 - heat).pow(4) * probability.square() * functional.logsigmoid(-logits)
    each = -(peak * hit + (1 - peak) * miss) * counted
    return (each.sum(dim=(0, 2, 3)) * class_weight).sum() / (peak * counted).sum().clamp(min=1)


def reach_loss(reach: Tensor, wanted: Tensor, weight: Tensor) -> Tensor:
    """The weighted mean of 1 - GIoU. ``reach`` and ``wanted`` (batch, 4, rows, columns), ``weight`` without the 4."""
    chosen = weight > 0
    weight = weight[chosen]
    a, b = (sides.permute(0, 2, 3, 1)[chosen] for sides in (reach, wanted))
    return ((1 - giou(a, b)) * weight).sum() / weight.sum().clamp(min=1)


def giou(a: Tensor, b: Tensor) -> Tensor:
    """Generalised IoU (n,) of boxes around common points, as distances left, top, right, bottom (n, 4)."""
    least, most = torch.minimum(a, b), torch.maximum(a, b)
    shared = (least[:, 0] + least[:, 2]).clamp(min=0) * (least[:, 1] + least[:, 3]).clamp(min=0)
    around = ((most[:, 0] + most[:, 2]) * (most[:, 1] + most[:, 3])).clamp(min=1e-6)
    areas = [(box[:, 0] + box[:, 2]) * (box[:, 1] + box[:, 3]) for box in (a, b)]
    union = (areas[0] + areas[1] - shared).clamp(min=1e-6)
    return shared / union - (around - union) / around
