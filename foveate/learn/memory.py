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
    released last, ``before`` the one that looked then, which still does where the later one was taken back;
    ``unreleased`` says that an accepted one still has to be released. ``drift_seen`` is whether the agent's wish for
    another model has been noticed, ``drifted_at_s`` since when it waits to be met, and ``changed_at_s`` when one was
    noticed last. ``attempts`` are all so far: each has its own seed.
    """

    last: LastTry | None = None
    in_words: str = ""
    way: Way | None = None
    released: LearnedModel | None = None
    before: LearnedModel | None = None
    unreleased: bool = False
    drift_seen: bool = False
    drifted_at_s: float | None = None
    changed_at_s: float | None = None
    attempts: int = 0

    def noticed(self, *, drifted: bool, now_s: float) -> "LearnerMemory":
        """The memory after a look at whether the agent wants another model."""
        if drifted == self.drift_seen:
            return self
        changed_at_s = now_s if drifted else self.changed_at_s
        return msgspec.structs.replace(
            self, drift_seen=drifted, drifted_at_s=now_s if drifted else None, changed_at_s=changed_at_s
        )

    def looking(self, title: str) -> LearnedModel | None:
        """The released model that looks now, by its name@version; None where that is no model from here."""
        return next((one for one in (self.released, self.before) if one is not None and one.title == title), None)

    def with_release(self, model: LearnedModel, looks: str) -> "LearnerMemory":
        """The memory once a model is released while ``looks``, as name@version, looks."""
        return msgspec.structs.replace(self, released=model, before=self.looking(looks), unreleased=False)

    @property
    def files(self) -> frozenset[Path]:
        """The files of models that may be looking."""
        return frozenset(one.file for one in (self.released, self.before) if one is not None)


def read_memory(path: Path) -> LearnerMemory:
    """The memory in a file; a new one where there is none that can be read."""
    try:
        return decode(path.read_bytes(), LearnerMemory)
    except (OSError, msgspec.MsgspecError):
        return LearnerMemory()


def write_memory(path: Path, memory: LearnerMemory) -> None:
    """Keep a memory. Raises OSError."""
    replace_file(path, encode(memory))
