"""The agent's small models: the usual one, and a lighter one with the same classes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foveate import edge_models
from foveate.config.settings import for_sources, plan
from foveate.edge_models import load_edge_models
from foveate.plan import EdgeModel, Plan
from pipeline.errors import ModelError
from tests.support.agents import SmallModel


def planned(light: EdgeModel | None) -> Plan:
    return replace(plan(for_sources(["synthetic:"])), edge_light=light)


def test_without_a_word_there_is_no_lighter_model() -> None:
    detector, light = load_edge_models(planned(None))
    assert (detector.name, light) == ("nanodet-g-int8", None)


def test_the_lighter_model_may_be_the_same_at_a_smaller_size() -> None:
    detector, light = load_edge_models(planned(EdgeModel(input_size=(128, 160))))
    assert light is not None
    assert light is not detector
    assert light.labels == detector.labels


def test_a_lighter_model_with_other_classes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, *, input_size: Any, threads: int, models_dir: Path | None) -> SmallModel:
        model = SmallModel()
        model.name, model.labels = name, ("person", "car") if name == "nanodet-g-int8" else ("face", "car")
        return model

    monkeypatch.setattr(edge_models, "load_detector", load)
    with pytest.raises(ModelError, match=r"'other' of models\.edge_light has other classes than 'nanodet-g-int8'"):
        load_edge_models(planned(EdgeModel("other")))
