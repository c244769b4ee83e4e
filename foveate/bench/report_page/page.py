"""A page as a value: sections of text, tables and plots, whatever it is written as."""

import math
from dataclasses import dataclass

from foveate.bench.bootstrap import Interval


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a header; ``strong`` are the numbers of rows that the page is about."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    strong: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot by its file's stem, and what it shows in words."""

    name: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with paragraphs, then plots, then tables."""

    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """All of it; ``facts`` are (what, value) pairs at the top, ``about`` lines at the foot."""

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    about: tuple[str, ...]


NOTHING, MINUS = "–", "−"


def number(value: float | None, digits: int = 3) -> str:
    """A number for people; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.{digits}f}".replace("-", MINUS)


def percent(value: float, digits: int = 1) -> str:
    """A share for people."""
    return f"{100 * value:.{digits}f} %" if math.isfinite(value) else NOTHING


def interval(value: Interval, *, signed: bool = False) -> str:
    """A value with its interval."""
    sign = "+" if signed else ""
    if not math.isfinite(value.low):
        return f"{value.value:{sign}.3f}".replace("-", MINUS)
    return f"{value.value:{sign}.3f} [{value.low:{sign}.3f}, {value.high:{sign}.3f}]".replace("-", MINUS)
