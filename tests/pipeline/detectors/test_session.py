"""What a model runs on is what was asked for, or somebody is told."""

import logging
from pathlib import Path

import onnxruntime as ort
import pytest

from pipeline.detectors.execution import Execution
from pipeline.detectors.loading import load_detector
from pipeline.detectors.session import open_session
from pipeline.errors import ModelError
from tests.support.onnx_models import SIDE, answer, entry, fake_detector, save

ABSENT = next(name for name in ("tensorrt", "openvino") if name not in ort.get_available_providers())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(tmp_path, entry(), fake_detector(*answer([])))
    return tmp_path / "fake.onnx"


def without_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """An onnxruntime that is built with CUDA on a machine without its driver: it says nothing and takes the CPU."""
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    real = ort.InferenceSession
    monkeypatch.setattr(
        ort,
        "InferenceSession",
        lambda path, options, providers: real(path, options, providers=["CPUExecutionProvider"]),
    )


def test_a_provider_that_this_onnxruntime_has_not_is_an_error_that_says_what_it_has(model: Path) -> None:
    with pytest.raises(ModelError, match=f"is to run on {ABSENT}, and onnxruntime .* has only .*CPUExecutionProvider"):
        open_session(model, 1, one_shape=True, providers=(ABSENT,))


def test_the_cpu_stands_in_where_it_is_among_the_providers_and_that_is_logged(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        opened = open_session(model, 1, one_shape=True, providers=(ABSENT, "cpu"))
    assert opened.get_providers() == ["CPUExecutionProvider"]
    assert f"has no {ABSENT}; it will run on cpu" in caplog.text


def test_a_silent_fall_to_the_cpu_is_an_error(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_notice(monkeypatch)
    with pytest.raises(ModelError, match="is to run on cuda, and onnxruntime took CPUExecutionProvider instead"):
        open_session(model, 1, one_shape=True, providers=("cuda",))


def test_a_silent_fall_to_the_cpu_is_logged_where_the_cpu_was_allowed(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_notice(monkeypatch)
    with caplog.at_level(logging.WARNING):
        open_session(model, 1, one_shape=True, providers=("cuda", "cpu"))
    assert "runs on CPUExecutionProvider: cuda cannot be used here" in caplog.text


def test_a_name_that_is_no_provider_is_refused_with_those_that_are(model: Path) -> None:
    with pytest.raises(ModelError, match="is to run on gpu: choose from cpu, cuda, tensorrt, openvino"):
        open_session(model, 1, one_shape=True, providers=("gpu",))


def test_a_detector_is_loaded_on_the_providers_asked_for(model: Path) -> None:
    with pytest.raises(ModelError, match=ABSENT):
        load_detector(
            "fake", input_size=(SIDE, SIDE), threads=1, models_dir=model.parent, on=Execution(providers=(ABSENT,))
        )
