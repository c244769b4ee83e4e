"""``foveate calibrate`` from a recording to a file that a camera takes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foveate.bench.clip import cut
from foveate.bench.report import ROOT
from foveate.cli import app
from pipeline.errors import ConfigError, SourceError
from pipeline.policies.calibration import decode

PLAZA = ROOT / "sample_videos/plaza.mp4"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clip = tmp_path_factory.mktemp("calibrate") / "short.mp4"
    cut(PLAZA, 24, clip)
    return clip


def test_a_recording_becomes_a_calibration(recording: Path, tmp_path: Path) -> None:
    file = tmp_path / "gate.json"
    result = CliRunner().invoke(app, ["calibrate", str(recording), "--agreement", "0.5", "-o", str(file)])
    assert result.exit_code == 0, result.output
    made = decode(file.read_text())
    assert made.gain.lessons > 50
    assert made.arm is not None
    assert "kbit/s" in result.output
    assert "asked: share of the analysed frames" in result.output
    gain = json.loads(file.read_text())["least_gain"]
    assert f"Chosen: least_gain {gain:g}, which asks about" in result.output
    assert "it has the fewest kbit/s (" in result.output
    assert "settings with at least 0.5 agreement." in result.output
    assert json.loads(file.read_text())["schema"] == 1


def test_a_budget_that_nothing_meets_is_said_plainly_and_nothing_is_written(recording: Path, tmp_path: Path) -> None:
    file = tmp_path / "gate.json"
    command = ["calibrate", str(recording), "--budget-kbps", "0.5", "--agreement", "1.0", "-o", str(file)]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, ConfigError)
    assert result.exception.exit_code == 2
    assert "no setting meets at most 0.5 kbit/s and at least 1 agreement" in str(result.exception)
    assert "comes nearest" in str(result.exception)
    assert not file.exists()


def test_an_object_that_no_model_knows_is_refused_at_once_with_the_nearest(recording: Path, tmp_path: Path) -> None:
    file = tmp_path / "gate.json"
    result = CliRunner().invoke(app, ["calibrate", str(recording), "--object", "persn", "-o", str(file)])
    assert isinstance(result.exception, ConfigError)
    assert "'persn', which no model knows; did you mean 'person'?" in str(result.exception)
    assert "analysed" not in result.output


def test_a_recording_that_is_absent_is_told(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["calibrate", str(tmp_path / "none.mp4"), "-o", str(tmp_path / "x.json")])
    assert isinstance(result.exception, SourceError)
