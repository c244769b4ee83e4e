"""Programs under measurement, each in a process of its own, one at a time."""

import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import BrokerError, ConfigError, FoveateError, ModelError, SourceError

LIMIT_S = 900.0
"""A program that is not done by then hangs."""
STOP_LIMIT_S = 10.0
QUOTED_CHARACTERS = 500

_ERRORS: dict[int, type[FoveateError]] = {
    error.exit_code: error for error in (ConfigError, SourceError, BrokerError, ModelError)
}


def run_child(command: Sequence[str], log: Path, limit_s: float = LIMIT_S) -> float:
    """Run a program to its end; returns the CPU seconds of it and of all processes that it started and waited for.

    What it prints goes to ``log``. Not for two programs at once: the kernel adds the CPU time of all children up.
    Raises the error that its exit code stands for, with its last words.
    """
    before_s = _children_cpu_s()
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            stop(process)
            raise FoveateError(f"{_shown(command)} was not done within {limit_s:g} s and was stopped.") from error
        except BaseException:
            stop(process)
            raise
    if code != 0:
        raise _ERRORS.get(code, FoveateError)(f"{_shown(command)} ended with code {code}: {_last_words(log)}")
    return _children_cpu_s() - before_s


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a program to end, and see that it does; blocks."""
    process.terminate()
    see_ended(process)


def see_ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for a program that was asked to end, and kill it where it does not; blocks."""
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _shown(command: Sequence[str]) -> str:
    return " ".join(command[1:])  # without the interpreter


def _last_words(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[-QUOTED_CHARACTERS:] if lines else "it said nothing"
