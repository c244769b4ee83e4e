"""What a model runs on is what was asked for, or somebody is told."""

import logging
import random
from pathlib import Path

import numpy as np
import onnxruntime as ort
import psutil
import pytest
from onnx import TensorProto, helper, numpy_helper

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


def test_memory_is_flat_over_pictures_of_ever_other_sizes(tmp_path: Path) -> None:
    """Case C13: 500 runs at random multiples of 32 px; what they need is there after the first 50."""
    chance, process = random.Random(3), psutil.Process()
    opened = open_session(wide_convolution(tmp_path), 1, one_shape=False)

    def run() -> None:
        height, width = chance.randrange(32, 321, 32), chance.randrange(32, 321, 32)
        [found] = opened.run(["out"], {"image": np.zeros((1, 3, height, width), np.float32)})
        assert found.shape == (1, 32, height // 8, width // 8)

    for _ in range(50):
        run()
    before_bytes = process.memory_info().rss
    for _ in range(450):
        run()
    assert process.memory_info().rss <= 1.1 * before_bytes


def wide_convolution(folder: Path) -> Path:
    """A model of any size whose largest activation is 32 channels of the picture: 13 MB at 320 x 320."""
    weights = {"w": np.ones((32, 3, 3, 3), np.float32), "v": np.ones((32, 32, 8, 8), np.float32)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "w"], ["wide"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Conv", ["wide", "v"], ["out"], kernel_shape=[8, 8], strides=[8, 8]),
        ],
        "test",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "wide.onnx"
    path.write_bytes(made.SerializeToString())
    return path
