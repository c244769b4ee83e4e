"""Modules of folders that are no packages."""

import importlib.util
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]


def load_script(path: str) -> ModuleType:
    """Import a Python file of the repository by its path."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, REPOSITORY / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
