"""What is wrong with a configuration, and where, in sentences without secrets."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edge_agent.capture.address import mask_url
from pipeline.transport.url import masked

Loc = tuple[str | int, ...]
"""Where a value stands: keys and list positions from the top."""

_LEAST_REFERENCE = 4  # a shorter value from the environment would blot out parts of words


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem with the value at ``loc``: ``problem`` goes on a sentence that its key begins, ``advice`` ends it."""

    loc: Loc
    problem: str
    advice: str
    unknown: bool = False


def path_of(loc: Loc) -> str:
    """A place as people write it, for example ``cameras[0].sample_fps``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like the given one, or the shortest that contains it; None where none is alike."""
    words = list(known)
    alike = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if not alike and len(word) > 2:
        alike = sorted((other for other in words if word in other), key=len)
    return alike[0] if alike else None


def choose(value: str, known: Sequence[str]) -> str:
    """Advice to take one of the known values."""
    near = nearest(value, known)
    return f"{f'did you mean {near!r}? ' if near else ''}choose one of {', '.join(known)}"


def without_credentials(text: str) -> str:
    """Text without the user and the password of a URL in it, whatever characters they have."""
    hidden = mask_url(text)
    return masked(hidden) if "://" in hidden and "@" in hidden else hidden


@dataclass(frozen=True, slots=True)
class Places:
    """Tells where values were written: ``lines`` of the file ``name``, or on the command line (``overridden``).

    ``references``: texts that came from the environment, with the reference that stood for each.
    """

    name: str
    lines: Mapping[Loc, int]
    references: Mapping[str, str]
    overridden: frozenset[Loc] = frozenset()

    def home(self, loc: Loc) -> Loc:
        """Where a value was really written: a camera may have it from the defaults."""
        if len(loc) <= 2 or loc[0] != "cameras":
            return loc
        inherited = ("defaults", *loc[2:])
        own = max(len(self._known(loc)) - 1, 1)
        return inherited if len(self._known(inherited)) > own else loc

    def sentence(self, fault: Fault) -> str:
        """One sentence on one line: what, where, the value, what to do."""
        where = f"({self._where(fault.loc)})"
        if fault.unknown:
            text = f"unknown key {str(fault.loc[-1])!r} {where}; {fault.advice}"
        else:
            subject = " ".join(filter(None, [path_of(fault.loc) or "the configuration", fault.problem, where]))
            text = f"{subject}{':' if fault.advice[:1].isupper() else ';'} {fault.advice}"
        # What was written must not steer a terminal.
        return "".join(letter if letter.isprintable() else "?" for letter in self._secretless(text))

    def line(self, loc: Loc) -> int:
        """The line a place is nearest to, 0 for the command line."""
        return self.lines.get(self._known(loc), 0)

    def _where(self, loc: Loc) -> str:
        known = self._known(loc)
        if known in self.overridden:
            return "command line"
        return f"{self.name} line {self.lines[known]}" if known in self.lines else self.name

    def _known(self, loc: Loc) -> Loc:
        """The longest beginning of a place that has a line or was overridden."""
        for length in range(len(loc), 0, -1):
            if loc[:length] in self.lines or loc[:length] in self.overridden:
                return loc[:length]
        return ()

    def _secretless(self, text: str) -> str:
        for value, reference in self.references.items():
            if len(value) >= _LEAST_REFERENCE:
                text = text.replace(value, reference)
        return text
