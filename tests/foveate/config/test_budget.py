"""The keys of latency budgets and what they become."""

from pathlib import Path

import pytest

from foveate.config.load import load
from foveate.config.models import Configuration
from foveate.config.settings import agent_settings, plan
from foveate.plan import EdgeModel
from pipeline.errors import ConfigError
from pipeline.policies.budgets import BudgetSettings
from pipeline.policies.restraint import Action

CAMERA = "cameras: [{source: 'rtsp://cam/1'}]\n"


def read(tmp_path: Path, text: str) -> Configuration:
    file = tmp_path / "foveate.yaml"
    file.write_text(CAMERA + text)
    return load(file, {})


def budget(tmp_path: Path, text: str) -> BudgetSettings:
    light = "models: {edge_light: {}}\n"
    return agent_settings(read(tmp_path, f"{light}defaults: {{budget: {{{text}}}}}")).cameras[0].budget


def test_without_a_word_the_budgets_are_those_of_the_settings_and_nothing_acts(tmp_path: Path) -> None:
    made = budget(tmp_path, "")
    assert made == BudgetSettings()
    assert (made.enabled, made.actions.edge, made.actions.cloud) == (True, (), ())


def test_every_key_of_a_budget_reaches_its_settings(tmp_path: Path) -> None:
    made = budget(
        tmp_path,
        "segments_ms: {network: 61, queue: 21, edge: 41, cloud: 81}, stages_ms: {gate: 5, cloud_infer: 70},"
        "actions: {network: shrink_crops, queue: [raise_lambda], edge: [lower_sample_rate, light_model]},"
        "sla: {share: 0.9, within_ms: 100}, window_s: 20, least_samples: 10, sustained_s: 2, clear_share: 0.7,"
        "dwell_s: 8, least_sample_fps: 2",
    )
    segments = {b.segment: b.budget_ms for b in made.budgets(200.0) if b.stage is None}
    assert segments == {"network": 61, "queue": 21, "edge": 41, "cloud": 81}
    assert {b.stage: b.budget_ms for b in made.budgets(200.0) if b.stage} == {"gate": 5, "cloud_infer": 70}
    assert made.actions.network == (Action.SHRINK_CROPS,)
    assert made.actions.queue == (Action.RAISE_LAMBDA,)
    assert made.actions.edge == (Action.LOWER_SAMPLE_RATE, Action.LIGHT_MODEL)
    assert made.actions.cloud == ()
    assert (made.sla.share, made.sla.within_ms) == (0.9, 100)
    assert (made.window_s, made.least_samples, made.sustained_s, made.clear_share) == (20, 10, 2, 0.7)
    assert (made.dwell_s, made.least_sample_fps) == (8, 2)


def test_a_lighter_model_that_a_budget_asks_for_must_be_there(tmp_path: Path) -> None:
    wish = "defaults: {budget: {actions: {edge: [lower_sample_rate, light_model]}}}"
    with pytest.raises(
        ConfigError, match=r"actions\.edge names light_model, .*line 2\); add models\.edge_light"
    ) as caught:
        read(tmp_path, wish)
    assert str(caught.value).count("\n") == 0
    read(tmp_path, f"{wish}\nmodels: {{edge_light: {{}}}}")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("segment_ms: {}", "segments_ms"),
        ("segments_ms: {netwrok: 60}", "network"),
        ("actions: {edge: lower_sampling_rate}", "lower_sample_rate"),
        ("actions: {edge: [shrink_crop]}", "shrink_crops"),
        ("sla: {share: 98}", "at most 1"),
        ("segments_ms: {edge: 0}", "above 0"),
    ],
)
def test_a_mistake_in_a_budget_is_told_with_what_was_meant(tmp_path: Path, text: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice) as caught:
        budget(tmp_path, text)
    assert "foveate.yaml" in str(caught.value)


def test_a_lighter_model_is_the_usual_one_at_a_smaller_size_unless_said_otherwise(tmp_path: Path) -> None:
    assert plan(read(tmp_path, "")).edge_light is None
    assert plan(read(tmp_path, "models: {edge_light: {}}")).edge_light == EdgeModel(input_size=(128, 160))
    made = plan(read(tmp_path, "models: {edge_light: {name: other, input_size: [96, 128], threads: 2}}"))
    assert made.edge_light == EdgeModel("other", (96, 128), 2)
