"""At which input the general model sees a camera best: looked up on its lessons, before anything is trained.

A network that knows objects of one size best gains more from an input that shows them so than from many steps of
training, and what it costs is known beforehand: its time goes with the pixels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.detectors.contract import HeightWidth
from pipeline.geometry import Size

LEAST_SHARE = 0.25
"""An input has at least this share of the usual one's pixels."""
MOST_WASTE = 0.15
"""Share of an input that may be empty beside the picture."""
AS_GOOD = 0.01
"""An input that stands no further below the best is as good, and the one of fewest pixels is taken."""


@dataclass(frozen=True, slots=True)
class Tried:
    """An input (height, width) in pixels, and how well the general model stands at it, 0..1."""

    input_px: HeightWidth
    stands: float

    @property
    def pixels(self) -> int:
        """Pixels of the input, to which its time is in proportion."""
        return self.input_px[0] * self.input_px[1]


def sizes(picture: Size, usual: HeightWidth, stride_px: int) -> list[HeightWidth]:
    """Inputs worth trying: the usual one, and then largest first those that cost no more and leave no more than
    ``MOST_WASTE`` of themselves empty; of those as high, the one that wastes least.
    """
    most = usual[0] * usual[1]
    found: set[HeightWidth] = set()
    for height in _steps(stride_px, most):
        wide = [
            (_empty(picture, (height, width)), width)
            for width in _steps(stride_px, most // height)
            if LEAST_SHARE * most <= height * width <= most
        ]
        if wide and min(wide)[0] <= MOST_WASTE:
            found.add((height, min(wide)[1]))
    return [usual, *sorted(found - {usual}, key=lambda size: (-size[0] * size[1], size))]


def choose(
    candidates: Sequence[HeightWidth], stands: Callable[[HeightWidth], float], go_on: Callable[[], bool]
) -> list[Tried]:
    """All inputs that were tried, the one to take first: the cheapest of those as good as the best.

    They are tried in order, the first one always, and the others while ``go_on`` says so.
    """
    tried: list[Tried] = []
    for size in candidates:
        if not tried or go_on():
            tried.append(Tried(size, stands(size)))
    best = max(one.stands for one in tried)
    return sorted(tried, key=lambda one: (one.stands < best - AS_GOOD, one.pixels, -one.stands))


def _steps(stride_px: int, most: int) -> Iterator[int]:
    return iter(range(stride_px, most + 1, stride_px))


def _empty(picture: Size, input_px: HeightWidth) -> float:
    """Share of an input that the picture, in its own proportion, leaves empty."""
    scale = min(input_px[0] / picture.height, input_px[1] / picture.width)
    return 1 - picture.height * picture.width * scale**2 / (input_px[0] * input_px[1])
