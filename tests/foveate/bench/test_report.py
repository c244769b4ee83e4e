"""What is written down about a measurement."""

import json
from pathlib import Path

import pytest

from foveate.bench.report import Report, check_writable, context, write_report
from pipeline.errors import ConfigError


def test_figures_and_context_are_written_as_json(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    write_report(path, Report({"f1": 0.9}, {"frames": 3}, ("too warm",)), {"command": "foveate bench run main"})
    assert json.loads(path.read_text()) == {
        "figures": {"f1": 0.9},
        "context": {"command": "foveate bench run main", "details": {"frames": 3}, "warnings": ["too warm"]},
    }


def test_the_context_names_machine_date_command_and_versions() -> None:
    about = context("foveate bench run main --json f.json")
    assert about["command"] == "foveate bench run main --json f.json"
    assert about["date"].endswith("Z")
    assert about["machine"]["cpus"] >= 1
    assert about["machine"]["memory_mb"] > 0
    assert about["versions"]["onnxruntime"] != "absent"
    json.dumps(about)


def test_a_place_that_cannot_be_written_is_refused_before_measuring(tmp_path: Path) -> None:
    for path in (tmp_path / "absent" / "f.json", tmp_path):
        with pytest.raises(ConfigError, match=r"Cannot write .*: name another file with --json"):
            check_writable(path)
        with pytest.raises(ConfigError, match="Cannot write"):
            write_report(path, Report({}, {}), {})
    check_writable(tmp_path / "f.json")
