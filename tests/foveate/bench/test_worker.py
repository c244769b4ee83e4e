"""The group worker hands back every figure that has a name, and says which it could not measure."""

import importlib

import pytest

from foveate.bench import worker
from foveate.bench.main_job import Inputs


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for part, names in worker.PARTS.items():
        values = dict.fromkeys(names, 1.0) | {"beside": 3.0}
        if part == "against_triton":
            values = {}
        if part == "tiers":
            values["tier_regret"] = float("nan")
        module = importlib.import_module(f"foveate.bench.{part}")
        monkeypatch.setattr(module, "measure", lambda short, say, values=values: values)


@pytest.mark.usefixtures("_measured")
def test_figures_are_those_with_a_name_and_the_rest_are_details() -> None:
    report = worker.measure(Inputs(short=True), lambda _: None)
    named = {name for part, names in worker.PARTS.items() if part != "against_triton" for name in names}
    assert set(report.figures) == named
    assert report.details["hops"] == {"beside": 3.0}
    assert report.details["short"] is True


@pytest.mark.usefixtures("_measured")
def test_a_figure_that_is_no_number_and_those_that_are_absent_are_told() -> None:
    warnings = worker.measure(Inputs(short=True), lambda _: None).warnings
    assert warnings == (
        "tier_regret is not a number",
        "against_triton did not measure triton_goodput_ratio_min, overload_goodput, overload_goodput_triton",
    )
