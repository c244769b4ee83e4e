"""How a camera's learning has gone: one point a minute, a day of them, kept in a file."""

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from edge_agent.status.snapshot import LearningPoint
from foveate.learn.folders import replace_file

_log = logging.getLogger(__name__)
EVERY_S = 60.0
MOST_POINTS = 24 * 60
MOST_BYTES = 2_000_000


class History:
    """The points of one camera, oldest first. Reading and writing block; a fault of the file costs only the curve."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._points: list[LearningPoint] = []
        self._told = False

    @property
    def points(self) -> Sequence[LearningPoint]:
        return self._points

    def recall(self) -> None:
        """Go on from what an earlier run has kept; nothing where that is not readable."""
        try:
            data = self._path.read_bytes() if self._path.stat().st_size <= MOST_BYTES else b""
            self._points = msgspec.json.decode(data, type=list[LearningPoint])[-MOST_POINTS:]
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("the curve of what was learned begins anew: %s is not readable (%s).", self._path, error)

    def add(self, point: LearningPoint) -> None:
        """One more minute; the oldest makes room."""
        self._points = [*self._points[-(MOST_POINTS - 1) :], point]

    def save(self) -> None:
        try:
            replace_file(self._path, msgspec.json.encode(self._points))
        except OSError as error:
            if not self._told:
                self._told = True
                _log.warning("the curve of what is learned is not kept: %s (%s).", self._path, error.strerror)
