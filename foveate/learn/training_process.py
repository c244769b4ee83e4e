"""Has a model trained by a process of its own, which goes on where one that was ended has stopped."""

import importlib.util
from pathlib import Path

import msgspec

from foveate.learn.child import Ended, run_child
from foveate.learn.folders import replace_file
from foveate.learn.values import decode, encode
from foveate.training.order import Order, Progress, Say, Trained
from pipeline.errors import ConfigError, ModelError

MODULE = "foveate.learn.training_child"
GRACE_S = 90.0
"""What a training takes beyond its time limit to begin and to write its result, before it counts as hung."""
ATTEMPTS = 3
NO_TORCH = (
    "training needs PyTorch, which is not installed here: install Foveate with its extra `train`, "
    "for example pip install 'foveate[train]'."
)
_FINAL = frozenset({ConfigError.exit_code, ModelError.exit_code})
"""Exit codes after which another try would end the same way."""


async def train(order: Order, lessons: Path, say: Say, module: str = MODULE) -> Trained:
    """Train as ordered from the lessons in a folder; progress goes to ``say``.

    A process that dies is started again and resumes from its checkpoint. Raises ConfigError where PyTorch is missing,
    ModelError where there is no model in the end.
    """
    if module == MODULE and not can_train():
        raise ConfigError(NO_TORCH)
    order_file = order.folder / "order.json"
    replace_file(order_file, encode(order))
    threads = {name: str(order.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    ended = Ended(0, "")
    for _ in range(ATTEMPTS):
        reader = _Reader(say)
        command = ["-m", module, str(order_file), str(lessons)]
        ended = await run_child(command, reader.line, order.time_limit_s + GRACE_S, env=threads)
        if ended.code == 0 and reader.trained is not None:
            return reader.trained
        if ended.code in _FINAL or ended.out_of_time:
            break
    raise ModelError(_why(ended, order))


def can_train() -> bool:
    """Whether PyTorch is installed; it is not imported."""
    return importlib.util.find_spec("torch") is not None


class _Reader:
    """Takes the lines of a training apart: each is progress, but the last one, which is the model."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.trained: Trained | None = None

    def line(self, line: bytes) -> None:
        try:
            self._say(msgspec.json.decode(line, type=Progress))
        except msgspec.MsgspecError:
            self._result(line)

    def _result(self, line: bytes) -> None:
        try:
            self.trained = decode(line, Trained)
        except msgspec.MsgspecError:
            return  # a library's own words


def _why(ended: Ended, order: Order) -> str:
    said = ended.words.splitlines()[-1] if ended.words else "it said nothing"
    if ended.code in _FINAL:
        return said.removeprefix("training: ")
    if ended.out_of_time:
        return (
            f"the training for {order.camera} did not end within {order.time_limit_s + GRACE_S:.0f} s "
            f"(last words: {said}); give it more time or threads."
        )
    return f"the training for {order.camera} ended with exit code {ended.code}: {said}"
