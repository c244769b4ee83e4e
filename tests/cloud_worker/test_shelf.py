"""What is known of the models that are served."""

import pytest

from cloud_worker.settings import ServedModel, WorkerSettings
from cloud_worker.shelf import Shelf
from pipeline.geometry import Size
from tests.support.detectors import ScriptedDetector

SETTINGS = WorkerSettings((ServedModel("m"), ServedModel("n", (64, 96))))


def test_whoever_was_given_the_models_sees_those_that_come_later() -> None:
    shelf = Shelf(SETTINGS)
    detectors, announced = shelf.detectors, shelf.announced
    shelf.put("m", ScriptedDetector("m"))
    shelf.put("n", ScriptedDetector("n"), lambda _picture: Size(96, 64))
    assert list(detectors) == ["m", "n"]
    assert announced == [], "a state that was announced does not change afterwards"
    assert [(model.name, model.version) for model in shelf.announced] == [("m", "1"), ("n", "1")]
    assert shelf.input_of["m"](Size(33, 20)) == Size(64, 32)
    assert shelf.input_of["n"](Size(33, 20)) == Size(96, 64)


def test_all_that_an_answer_depends_on_is_in_the_contract() -> None:
    contracts = set()
    for size in (None, (64, 64)):
        for url in (None, "http://host/v2/models/m"):
            for padding in (0.0, 0.25):
                for version in ("1", "2"):
                    shelf = Shelf(WorkerSettings((ServedModel("m", size, url),), most_padding=padding))
                    detector = ScriptedDetector("m")
                    detector.version = version
                    shelf.put("m", detector)
                    contracts.add(shelf.contracts["m"])
    assert len(contracts) == 16


def test_a_model_is_put_there_once_and_only_where_it_is_to_be_served() -> None:
    shelf = Shelf(SETTINGS)
    shelf.put("m", ScriptedDetector("m"))
    for name in ("m", "other"):
        with pytest.raises(ValueError, match=name):
            shelf.put(name, ScriptedDetector(name))
