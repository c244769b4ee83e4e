"""Where learning keeps what it has: everything below an agent's state folder."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from foveate.learn.values import Outcome, decode

WEIGHTS_FILE = "weights.pt"
"""What a training of the way ``own`` leaves beside its model."""
TAUGHT_FILE = "taught.json"


def default_state_dir(env: Mapping[str, str]) -> Path:
    """The user's own folder for state (XDG Base Directory Specification): ``$XDG_STATE_HOME/foveate``."""
    home = env.get("XDG_STATE_HOME", "")
    # The specification has relative paths ignored.
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "state"
    return base / "foveate"


class Taught(msgspec.Struct, frozen=True, kw_only=True):
    """Of whose lessons a network knows, and up to when (RFC 3339); kept beside its weights."""

    camera: str
    to: str


@dataclass(frozen=True, slots=True)
class CameraFolders:
    """The folders and files of one camera: its lessons, and what has been learned from them."""

    state_dir: Path
    camera: str

    @property
    def lessons(self) -> Path:
        return self.state_dir / "lessons" / self.camera

    @property
    def learn(self) -> Path:
        return self.state_dir / "learn" / self.camera

    @property
    def attempt(self) -> Path:
        """What an attempt that is under way works in; kept until it has come to its end, so that it can go on."""
        return self.learn / "attempt"

    @property
    def by_hand(self) -> Path:
        """The same of ``foveate learn train``."""
        return self.learn / "by-hand"

    @property
    def agent_lock(self) -> Path:
        """Held by the agent that learns for this camera."""
        return self.learn / "agent.lock"

    @property
    def by_hand_lock(self) -> Path:
        return self.learn / "by-hand.lock"

    @property
    def student(self) -> Path:
        """The weights of the last accepted network of the camera's own, from which the next one starts."""
        return self.learn / "student"

    @property
    def outcome_file(self) -> Path:
        return self.learn / "outcome.json"

    @property
    def history_file(self) -> Path:
        return self.learn / "history.json"

    @property
    def memory_file(self) -> Path:
        return self.learn / "memory.json"

    def outcome(self) -> Outcome | None:
        """What the last attempt came to; None where there was none, or nothing readable is left of it."""
        try:
            return decode(self.outcome_file.read_bytes(), Outcome)
        except (OSError, msgspec.MsgspecError):
            return None


def earlier_student(state_dir: Path, camera: str) -> Path | None:
    """The folder of weights that a camera's network may start from: its own, else the newest of another camera's."""
    own = CameraFolders(state_dir, camera).student
    if (own / WEIGHTS_FILE).is_file():
        return own
    others = sorted(state_dir.glob(f"learn/*/student/{WEIGHTS_FILE}"), key=lambda file: file.stat().st_mtime)
    return others[-1].parent if others else None


def knows(student: Path, camera: str, from_: str) -> bool:
    """Whether the network in a folder has learned from lessons that a camera took at a moment (RFC 3339) or later."""
    try:
        taught = decode((student / TAUGHT_FILE).read_bytes(), Taught)
        newer = datetime.fromisoformat(taught.to) >= datetime.fromisoformat(from_)
    except (OSError, ValueError, msgspec.MsgspecError):
        return True  # nobody can tell
    return taught.camera == camera and newer


def replace_file(path: Path, data: bytes) -> None:
    """Write a file as a whole or leave it as it is, also through a power cut. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
