"""``foveate plan`` and ``foveate simulate`` as commands."""

import json
from pathlib import Path

import pytest

from foveate.simulation.workload import load, save
from tests.support.processes import command, cut_clip
from tests.support.workloads import workload


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    save(workload(), tmp_path / "w.json")
    return tmp_path / "w.json"


def test_a_plan_shows_its_formula_with_the_numbers_and_what_the_simulator_says(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "plan", "--cameras", "10", "--deadline-ms", "300", "--from", recorded) == 0
    said = capsys.readouterr().out
    assert "rho = N r s / k = 10 cameras x 5/s x 1 peak x 1.00 kept x 10.0 ms" in said
    assert "Sakasegawa" in said
    assert "Little" in said
    assert "98.0% within 300 ms: met" in said


def test_a_plan_that_cannot_be_met_says_why_and_ends_with_code_2(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "plan", "--cameras", "10", "--deadline-ms", "25", "--from", recorded) == 2
    assert "the small model is too slow" in capsys.readouterr().out


def test_a_plan_as_json_has_everything(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demand, times = ["--cameras", "10", "--deadline-ms", "300"], ["--edge-ms", "5", "--cloud-ms", "30"]
    assert command(monkeypatch, "plan", *demand, *times, "--from", recorded, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["load"]["edge"]["mean_s"] == pytest.approx(0.005)
    assert said["sizing"]["nodes"] >= 1
    assert said["outcome"]["hit_ratio"] >= 0.98
    assert set(said["peaks"]) == {"1", "1.5", "2", "3"}


def test_a_simulation_is_told_in_a_table_or_as_json(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "simulate", "run", recorded, "--cameras", "3", "--seconds", "5") == 0
    assert "times real time" in capsys.readouterr().out
    assert command(monkeypatch, "simulate", "run", recorded, "--network", "lte", "--seconds", "5", "--json") == 0
    assert json.loads(capsys.readouterr().out)["kept"] > 20


def test_a_clip_is_recorded_with_the_times_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = cut_clip(tmp_path / "c.mp4", 20)
    assert command(monkeypatch, "simulate", "record", clip, "-o", tmp_path / "w.json") == 0
    recorded = load(tmp_path / "w.json")
    assert recorded.captured == 20
    assert all(frame.edge_ms > 0 and frame.whole.infer_ms > 0 for frame in recorded.frames)
    assert any(frame.places and frame.mosaic for frame in recorded.frames)
    assert "small model" in capsys.readouterr().out
