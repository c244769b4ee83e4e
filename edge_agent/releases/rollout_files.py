"""Keeps how a camera's rollout stands in a file beside its models, so that a restart goes on where it was."""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edge_agent.releases.disk import Disk
from edge_agent.releases.slot import Staged
from pipeline.policies.drift import Drift
from pipeline.policies.evidence import Evidence
from pipeline.releases.standing import StageName

_log = logging.getLogger(__name__)
MOST_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a rollout outlives a restart. Models are told apart by their release's digest, else by name@version."""

    camera: str
    stage: StageName
    since: str
    reason: str = ""
    paused: bool = False
    candidate: str = ""
    evidence: Evidence | None = None
    watched: str = ""
    drift: Drift | None = None
    learn_again: bool = False
    refused: str = ""


def identity(staged: Staged) -> str:
    """How a model is told from others: by its release's digest, else by its name."""
    return staged.release or staged.title


class RolloutFiles:
    """The files of an agent's rollouts, ``{camera}.json`` in ``folder``. Blocks."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder, self._disk = folder, disk or Disk()
        self._writing, self._told = threading.Lock(), False

    def read(self, camera: str) -> Kept | None:
        """What was kept of a camera; None, and a warning where there was something, if that is of no use."""
        path = self._folder / f"{camera}.json"
        try:
            with path.open("rb") as file:
                kept = msgspec.json.decode(file.read(MOST_BYTES), type=Kept)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            _log.warning("camera %s judges its release anew: %s is not usable (%s).", camera, path, error)
            return None
        return kept if kept.camera == camera else None

    def write(self, kept: Kept) -> None:
        """Replace a camera's file as a whole, or leave it as it is; a fault is told once."""
        path = self._folder / f"{kept.camera}.json"
        try:
            with self._writing:  # one that nobody waits for any more may still be at it
                self._disk.write_whole(path, msgspec.json.encode(kept))
        except OSError as error:
            if not self._told:
                self._told = True
                _log.warning("how releases stand is not kept: %s cannot be written (%s).", path, error.strerror)
