"""The process that trains: ``python -m foveate.training ORDER.json LESSONS_DIR``.

Says one JSON ``Progress`` per line on standard output, and at the end the ``Trained``. Runs at low priority; started
anew with the same order it goes on where it was. Exit codes as in ``pipeline/errors.py``.
"""

import importlib
import os
import sys
from pathlib import Path

import msgspec

from edge_agent.lessons.lesson import Lesson
from edge_agent.lessons.store import LessonStore
from foveate.training.order import Order, Progress, Trained
from pipeline.errors import ConfigError, FoveateError

NICENESS = 10
"""Whatever answers frames on this machine comes first."""
MOST_LESSON_BYTES = 512 * 1024 * 1024
"""Pictures that are held in memory as they were taken, whatever their size; more are thinned as the store would."""
SIZED = 16
"""Lessons that are read to see how large their pictures are: any of them may be damaged."""
USAGE = "usage: python -m foveate.training ORDER.json LESSONS_DIR"


def main(arguments: list[str]) -> int:
    """Train as the arguments say; returns the exit code."""
    os.nice(NICENESS)
    # A thread that spins while it waits for the others takes their core from them where there are few.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        if len(arguments) != 2:
            raise ConfigError(f"{len(arguments)} arguments given: {USAGE}.")
        trained = _train(_order(Path(arguments[0])), Path(arguments[1]))
    except FoveateError as error:
        print(f"training: {error}", file=sys.stderr)
        return error.exit_code
    _print(trained)
    return 0


def _order(path: Path) -> Order:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Order, dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"Cannot read the order {path} ({error}): {USAGE}.") from error


def _train(order: Order, lessons_dir: Path) -> Trained:
    # PyTorch is imported once its threads have been told how to wait.
    way = importlib.import_module(f"foveate.training.{order.way}")
    trained: Trained = way.train(lessons_held(LessonStore(lessons_dir)), order, _print)
    return trained


def lessons_held(store: LessonStore) -> list[Lesson]:
    """The lessons of a store that are not too many to be held, oldest first."""
    some = store.read(SIZED)
    return store.read(max(1, MOST_LESSON_BYTES // max(one.picture.nbytes for one in some))) if some else []


def _print(said: Progress | Trained) -> None:
    print(msgspec.json.encode(said, enc_hook=str).decode(), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
