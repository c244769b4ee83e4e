"""The command's door."""

import subprocess
import sys

import pytest

from foveate.__main__ import main


class Interrupted:
    """An import during which somebody presses Ctrl-C."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "foveate.cli":
            raise KeyboardInterrupt


def test_a_command_that_is_stopped_while_it_loads_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "foveate.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")


LOADS_ALL_BUT_TRAINING = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {"torch", "onnx"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for package in map(importlib.import_module, ("pipeline", "edge_agent", "cloud_worker", "foveate")):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        inside_triton = module.name == "foveate.bench.triton_backend"  # its modules are there and nowhere else
        if not module.name.startswith("foveate.training.") and not inside_triton:
            importlib.import_module(module.name)
print("loaded", "foveate.cli" in sys.modules)
"""


def test_all_but_the_training_loads_where_the_extra_for_it_is_not_installed() -> None:
    done = subprocess.run([sys.executable, "-c", LOADS_ALL_BUT_TRAINING], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("loaded True", "")
