"""What is remembered of a lesson without opening it: when, in what light, what was where, and how it looked."""

from dataclasses import dataclass
from enum import StrEnum

GRID = (8, 6)
"""Columns and rows of the picture that count as places."""


class Light(StrEnum):
    """The light that a picture was taken in."""

    DAY = "day"
    DUSK = "dusk"
    NIGHT = "night"
    INFRARED = "infrared"


class Content(StrEnum):
    """How much there is to see."""

    EMPTY = "empty"
    FEW = "few"
    MANY = "many"


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """What a lesson stands for; ``hour`` 0..23 is the site's own."""

    hour: int
    light: Light
    content: Content

    def __str__(self) -> str:
        return f"{self.light.value} at {self.hour} h, {self.content.value}"


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """An object in a lesson: its label, its centre (``x``, ``y``) on a grid twice as fine as that of places, its size
    as the binary logarithm of its height's share of the picture, and its track (-1: none).
    """

    label: str
    x: int
    y: int
    size: int
    track: int = -1

    @property
    def place(self) -> tuple[int, int]:
        """Column and row of the place."""
        return self.x // 2, self.y // 2


@dataclass(frozen=True, slots=True)
class Mark:
    """One lesson. ``name`` is unique, ``taken_at_s`` seconds of Unix time, ``look`` a thumbnail of the picture as grey
    levels, 8 columns by 6 rows.
    """

    name: str
    taken_at_s: float
    size_bytes: int
    condition: Condition
    spots: tuple[Spot, ...]
    look: bytes


_DARK, _DIM = 50.0, 90.0
"""Mean luma, of 255."""
_MANY = 4


def light_of(brightness: float, *, coloured: bool) -> Light:
    """The light from the mean luma (0..255) of a picture; a camera under infrared sends no colours."""
    if not coloured:
        return Light.INFRARED
    if brightness < _DARK:
        return Light.NIGHT
    return Light.DUSK if brightness < _DIM else Light.DAY


def content_of(objects: int) -> Content:
    """How much there is to see, from the number of objects."""
    if not objects:
        return Content.EMPTY
    return Content.MANY if objects >= _MANY else Content.FEW
