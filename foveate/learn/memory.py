"""What the service remembers of a camera across restarts."""

from pathlib import Path

import msgspec

from foveate.learn.folders import replace_file
from foveate.learn.values import LearnedModel, decode, encode
from foveate.training.order import Way
from pipeline.policies.learners import LastTry


class LearnerMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Moments are Unix seconds.

    ``last`` is the last training, ``in_words`` what it came to, and ``way`` its way. ``released`` is the model that was
    released last; ``unreleased`` says that an accepted one still has to be. ``drift_seen`` is whether the agent's wish
    for another model has been noticed, and ``drifted_at_s`` since when it waits to be met. ``attempts`` are all so far:
    each has its own seed.
    """

    last: LastTry | None = None
    in_words: str = ""
    way: Way | None = None
    released: LearnedModel | None = None
    unreleased: bool = False
    drift_seen: bool = False
    drifted_at_s: float | None = None
    attempts: int = 0

    def noticed(self, *, drifted: bool, now_s: float) -> "LearnerMemory":
        """The memory after a look at whether the agent wants another model."""
        if drifted == self.drift_seen:
            return self
        return msgspec.structs.replace(self, drift_seen=drifted, drifted_at_s=now_s if drifted else None)


def read_memory(path: Path) -> LearnerMemory:
    """The memory in a file; a new one where there is none that can be read."""
    try:
        return decode(path.read_bytes(), LearnerMemory)
    except (OSError, msgspec.MsgspecError):
        return LearnerMemory()


def write_memory(path: Path, memory: LearnerMemory) -> None:
    """Keep a memory. Raises OSError."""
    replace_file(path, encode(memory))
