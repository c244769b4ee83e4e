"""A camera's own small network: it knows one scene, for which fifty thousand weights are enough.

A backbone of depthwise-separable convolutions (Howard et al., "MobileNets", 2017, section 3.1) to stride 16, a
top-down path (Lin et al., "Feature Pyramid Networks", CVPR 2017, section 3) to stride 4, and there a heatmap of object
centres per class with the distances to the four sides (Zhou et al., "Objects as Points", 2019, section 3; Tian et al.,
"FCOS", ICCV 2019, section 3.1). Every operation has its twin in ``export.py``.
"""

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

STRIDE_PX = 4
"""Input pixels per cell of the heatmap."""
COARSEST_PX = 16
"""Stride of the deepest layer; an input's sides are multiples of it."""
WIDTHS = (16, 16, 64, 96)
"""Channels at strides 2, 4, 8 and 16 of the usual network, multiples of the 16 that a vector register holds; what is
seen at coarse strides costs little. Below, the channels of its top-down path.
"""
NECK_WIDTH = 32
SPREAD = 64.0
"""What pixels are divided by. No mean is subtracted: the first normalisation takes it away."""
PRIOR = 0.02
"""Probability of a centre that an untrained cell states, so that empty cells do not drown the first steps
(Lin et al., "Focal Loss", ICCV 2017, section 4.1).
"""
USUAL_REACH_PX = 12.0
"""Distance from centre to side that an untrained cell states."""
MOST_LOG_REACH = 6.5


@dataclass(frozen=True, slots=True)
class StudentShape:
    """What fixes a network's weights: the number of classes, and the multiplier of all its widths."""

    classes: int
    width: float = 1.0

    def channels(self, usual: int) -> int:
        """The channels where the usual network has ``usual``, a multiple of 16."""
        return max(16, round(usual * self.width / 16) * 16)


class Unit(nn.Module):
    """Convolution, batch normalisation and, where ``active``, ReLU."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, active: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.active = active

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        return functional.relu(x, inplace=True) if self.active else x


class Separable(nn.Module):
    """Depthwise, then pointwise; the input is added where its shape stays the same."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> None:
        super().__init__()
        self.depthwise = Unit(inputs, inputs, kernel, stride=stride, groups=inputs)
        self.pointwise = Unit(inputs, outputs, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.pointwise(self.depthwise(x))
        return x + y if self.residual else y


class Student(nn.Module):
    """The network. Takes pixels (batch, 3, height, width) float32 BGR 0..255, sides multiples of 16.

    Gives logits (batch, classes, height / 4, width / 4) of an object's centre lying in each cell, and the distances
    left, top, right, bottom (batch, 4, height / 4, width / 4) in input pixels from the middle of the cell.
    """

    def __init__(self, shape: StudentShape) -> None:
        super().__init__()
        self.shape = shape
        at_2, at_4, at_8, at_16 = (shape.channels(width) for width in WIDTHS)
        neck = shape.channels(NECK_WIDTH)
        self.stem = Unit(3, at_2, 3, stride=2)
        self.to_4 = nn.Sequential(Separable(at_2, at_4, 3, stride=2), Separable(at_4, at_4, 3))
        self.to_8 = nn.Sequential(Separable(at_4, at_8, 3, stride=2), Separable(at_8, at_8, 3))
        # Wide kernels where cells are few: what stands around an object is seen for little.
        self.to_16 = nn.Sequential(
            Separable(at_8, at_16, 5, stride=2), Separable(at_16, at_16, 5), Separable(at_16, at_16, 5)
        )
        self.side_16 = Unit(at_16, neck, 1, active=False)
        self.side_8 = Unit(at_8, neck, 1, active=False)
        self.side_4 = Unit(at_4, neck, 1, active=False)
        self.merge_8 = Separable(neck, neck, 3)
        self.merge_4 = Separable(neck, neck, 3)
        self.centre = nn.Conv2d(neck, shape.classes, 1)
        self.reach = nn.Conv2d(neck, 4, 1)
        for head, stated in ((self.centre, math.log(PRIOR / (1 - PRIOR))), (self.reach, math.log(USUAL_REACH_PX))):
            nn.init.normal_(head.weight, std=0.01)
            nn.init.constant_(head.bias, stated)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        at_4 = self.to_4(self.stem(pixels / SPREAD))
        at_8 = self.to_8(at_4)
        y = self.side_16(self.to_16(at_8))
        y = self.merge_8(functional.interpolate(y, scale_factor=2.0) + self.side_8(at_8))
        y = self.merge_4(functional.interpolate(y, scale_factor=2.0) + self.side_4(at_4))
        return self.centre(y), self.reach(y).clamp(max=MOST_LOG_REACH).exp()
