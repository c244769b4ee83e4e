"""Where a run writes: files that must not be one another, and a terminal that may go away."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from rich.console import Console

from foveate.plan import Outputs
from pipeline.errors import ConfigError

PLAIN_WIDTH = 160
"""Columns of what is printed where there is no terminal to ask."""


class PatientStream:
    """A text stream that drops what its reader does not take: a closed pipe or a full disk must not end a run."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console() -> Console:
    """Standard output for people; wide where it is no terminal, so that lines stay whole in a file."""
    stream: Any = PatientStream(sys.stdout)
    return Console(file=stream, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def check_apart(outputs: Outputs, inputs: Iterable[str | Path]) -> None:
    """See that no file is written over another one of the same run. Raises ConfigError."""
    named: dict[Path, str] = {}
    for what, path in (
        *(("a source or the configuration", Path(given)) for given in inputs if given and Path(given).is_file()),
        ("the record", outputs.record),
        ("the summary", outputs.summary),
    ):
        if path is None or path.is_char_device():
            continue
        other = named.setdefault(path.resolve(), what)
        if other != what:
            raise ConfigError(f"{path} is {other} and would be overwritten by {what}; name another file.")


def check_output(output: Path, source: Path) -> None:
    """See that a file can be written before minutes of work for it, and is not their source. Raises ConfigError."""
    if output.exists() and source.exists() and output.samefile(source):
        raise ConfigError(f"{output} is the source and would be overwritten; name another file.")
    try:
        _try_to_write(output)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}; name another file.") from error


def check_writable(path: Path | None, what: str) -> None:
    """See that a file can be written, without making it or touching what it holds. Raises ConfigError."""
    try:
        if path is not None:
            _try_to_write(path)
    except OSError as error:
        raise ConfigError(f"the {what} file {path} cannot be written: {error.strerror}; name another one.") from error


def _try_to_write(path: Path) -> None:
    if path.exists():
        path.open("ab").close()
    else:
        tempfile.TemporaryFile(dir=path.resolve().parent).close()


def write_summary(path: Path, result: dict[str, Any]) -> None:
    """Write a summary as JSON: whoever ends the process meanwhile finds none, or the old one. Raises ConfigError."""
    try:
        _write_whole(path, json.dumps(result, indent=2) + "\n")
    except OSError as error:
        raise ConfigError(f"the summary file {path} cannot be written: {error.strerror}; name another one.") from error


def _write_whole(path: Path, text: str) -> None:
    """Write beside and rename. A device, or what is mounted there by itself and stays where it is, is written to."""
    if path.exists() and not path.is_file():
        path.write_text(text)
        return
    target = path.resolve()
    beside = target.with_name(f".foveate-{os.getpid()}.tmp")
    try:
        beside.write_text(text)
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if not target.exists():
            raise
        target.write_text(text)
