"""The lessons of an attempt, apart from the store, which goes on changing while a training runs."""

import contextlib
import os
import shutil
from pathlib import Path


def link_files(source: Path, names: list[str], target: Path) -> None:
    """Give files of a folder a second name in another one; copy them where the file system has no links.

    What has been there before is removed; a file that is gone meanwhile is left out. Raises OSError.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            try:
                os.link(source / name, target / name)
            except FileNotFoundError:
                raise
            except OSError:
                shutil.copy2(source / name, target / name)
