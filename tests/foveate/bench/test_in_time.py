"""The group in-time hands back every figure that has a name, and says what makes them doubtful."""

from pathlib import Path
from typing import Any

import pytest

from foveate.bench import gain, gate, in_time, network_runs, playlist, scheduling
from foveate.bench.main_job import Inputs
from pipeline.errors import SourceError


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for clip in (playlist.ONE_BY_ONE, playlist.VTEST, playlist.BOTTLE):
        monkeypatch.setattr(in_time, clip.name.replace("-", "_").upper(), _There())
    monkeypatch.setattr(network_runs, "load_models", lambda say: None)
    for part, figure in (("mix", "mix_lte_p99_ms"), ("outage", "outage_answered"), ("wifi", "vtest_wifi_f1")):
        monkeypatch.setattr(network_runs, f"measure_{part}", _network(figure))
    for module in (gain, gate, scheduling):
        monkeypatch.setattr(module, "measure", lambda short, say: {"gr20": 0.6, "gate_ms": 1.0, "beside": 3.0})
    fleet = getattr(in_time, "fleet", None)
    if fleet is not None:
        monkeypatch.setattr(fleet, "measure", lambda short, say: {"sim_speed_x": 60.0})


class _There:
    def require(self) -> None:
        """It is."""


def _network(figure: str) -> Any:
    def measure(models: object, *, short: bool, say: object) -> tuple[dict[str, float], dict[str, Any]]:
        return {figure: float("nan") if figure == "vtest_wifi_f1" else 1.0}, {"runs": [{"hit_ratio": 0.9}]}

    return measure


@pytest.mark.usefixtures("_measured")
def test_figures_are_those_with_a_name_and_the_rest_are_details() -> None:
    report = in_time.measure(Inputs(short=True), lambda _: None)
    assert {"mix_lte_p99_ms", "outage_answered", "vtest_wifi_f1", "gr20", "gate_ms"} <= set(report.figures)
    assert "beside" not in report.figures
    assert report.details["gain"] == {"beside": 3.0}
    assert report.details["short"] is True


@pytest.mark.usefixtures("_measured")
def test_a_figure_that_is_no_number_and_frames_that_came_late_are_told() -> None:
    warnings = in_time.measure(Inputs(short=True), lambda _: None).warnings
    assert "vtest_wifi_f1 is not a number" in warnings
    assert any("outage: only 90.0%" in warning for warning in warnings)


def test_an_absent_clip_is_told_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = playlist.Clip("vtest", tmp_path / "gone.avi", "person", 10.0)
    for name in ("VTEST", "ONE_BY_ONE", "BOTTLE"):
        monkeypatch.setattr(in_time, name, gone)
    with pytest.raises(SourceError, match=r"needs gone\.avi"):
        in_time.measure(Inputs(), lambda _: None)
