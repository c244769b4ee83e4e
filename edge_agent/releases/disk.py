"""Files that are there as a whole or not at all, whatever happens to the power. Everything here blocks."""

import contextlib
import os
import threading
from pathlib import Path

NEW, PART = ".new", ".part"
"""Endings of what is not finished: to be written anew, and to be continued."""


class Disk:
    """The steps by which files change. Each may raise OSError, and then the files are as they were."""

    _one_at_a_time = threading.Lock()
    """A thread that nobody waits for any more may be at the same file."""

    def write_whole(self, path: Path, data: bytes) -> None:
        """Replace a file, or leave it as it is: written beside it and made durable first."""
        new = path.with_name(path.name + NEW)
        with self._one_at_a_time:
            try:
                self.write(new, data)
                self.replace(new, path)
            except OSError:
                with contextlib.suppress(OSError):
                    new.unlink(missing_ok=True)  # a full disk has no room for halves
                raise
            self.sync_folder(path.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file and have it on the disk, not in a cache."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def replace(self, source: Path, target: Path) -> None:
        """Give a file another's name, in one step."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Make new names in a folder durable; where folders cannot be synced, the system does it in its own time."""
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
