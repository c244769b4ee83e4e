import logging
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.loading import load_detector
from pipeline.detectors.onnx import OnnxDetector
from pipeline.errors import ModelError
from tests.support.onnx_models import BINS, CELLS, CLASSES, SIDE, answer, entry, fake_detector, save

ANSWER = answer([(0, 0, 0.9, (0.5, 0.5, 1, 1))])
SIZE = (SIDE, SIDE)


def load(
    folder: Path, content: onnx.ModelProto | bytes, described: ModelEntry | None = None, threads: int = 1
) -> OnnxDetector:
    save(folder, described or entry(), content)
    return load_detector("fake", input_size=SIZE, threads=threads, models_dir=folder)


def ir_99() -> bytes:
    made = fake_detector(*ANSWER)
    made.ir_version = 99
    return bytes(made.SerializeToString())


def opset_99() -> bytes:
    made = fake_detector(*ANSWER)
    made.opset_import[0].version = 99
    return bytes(made.SerializeToString())


WHOLE = fake_detector(*ANSWER).SerializeToString()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (ir_99(), r"IR version 99 and onnxruntime \S+ supports up to \d+"),
        (opset_99(), r"opset 99 of ai\.onnx and onnxruntime \S+ supports up to \d+"),
        (WHOLE[:400], "cut off or damaged"),
        (b"", r"empty \(0 bytes\)"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
        (b"A text that is no model at all.", "not an ONNX file"),
    ],
)
def test_a_file_that_does_not_load_is_refused_with_its_name_and_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    with pytest.raises(ModelError, match=reason) as caught:
        load(tmp_path, content)
    assert str(tmp_path / "fake.onnx") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 5


def test_a_missing_side_file_with_weights_is_named_as_the_reason(tmp_path: Path) -> None:
    made = fake_detector(*ANSWER)
    path = tmp_path / "fake.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="weights.bin", size_threshold=64)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match="side file"):
        load(tmp_path, path.read_bytes())


def test_a_model_with_a_side_file_loads_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fake.onnx"
    made = fake_detector(*ANSWER)
    onnx.save_model(made, path, save_as_external_data=True, location="weights.bin", size_threshold=64)
    save(tmp_path, entry(), path.read_bytes())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    detector = load_detector("fake", input_size=SIZE, threads=1, models_dir=Path(os.pardir))
    assert len(detector.detect([np.zeros((SIDE, SIDE, 3), np.uint8)], 0.5)[0]) == 1


# Output layouts of other families: never read by guess, always named.
@pytest.mark.parametrize(
    "outputs",
    [
        {"output": (1, 25200, 85)},
        {"output": (1, 84, 8400)},
        {"output": (1, 300, 6)},
        {"output": (1, 5, 8400)},
        {"boxes": (1, 100, 4), "scores": (1, 100), "labels": (1, 100)},
        {"scores": (1, CELLS, CLASSES + 1), "distances": (1, CELLS, 4 * BINS)},
        {"scores": (1, CLASSES, CELLS), "distances": (1, 4 * BINS, CELLS)},
        {"scores": (1, CELLS, CLASSES), "distances": (1, CELLS, 4)},
    ],
)
def test_outputs_that_do_not_fit_the_contract_are_refused_with_their_shapes(
    tmp_path: Path, outputs: dict[str, tuple[int, ...]]
) -> None:
    constants = [numpy_helper.from_array(np.zeros(shape, np.float32), f"c_{name}") for name, shape in outputs.items()]
    nodes = [helper.make_node("Identity", [f"c_{name}"], [name]) for name in outputs]
    graph = helper.make_graph(
        nodes,
        "other family",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in outputs.items()],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError) as caught:
        load(tmp_path, made)
    assert any(str(side) in str(caught.value) for side in next(iter(outputs.values()))[1:])


@pytest.mark.parametrize(
    ("inputs", "model", "reason"),
    [
        ({"name": "picture"}, {}, "one input 'picture'"),
        ({"dtype": "float16"}, {}, "declares dtype float16"),
        ({"layout": "NHWC"}, {}, "layout NHWC"),
        ({}, {"shape": ["batch", 1, SIDE, SIDE]}, "3 channels"),
        ({}, {"shape": ["batch", 3, 32, 32]}, "64x64"),
    ],
)
def test_an_input_that_does_not_fit_the_contract_is_refused(
    tmp_path: Path, inputs: dict[str, Any], model: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        load(tmp_path, fake_detector(*ANSWER, **model), entry(inputs=inputs))


def test_a_second_input_is_refused_by_name(tmp_path: Path) -> None:
    made = fake_detector(*ANSWER)
    made.graph.input.append(helper.make_tensor_value_info("orig_size", TensorProto.INT64, [1, 2]))
    with pytest.raises(ModelError, match="orig_size"):
        load(tmp_path, made)


def test_a_size_that_is_no_multiple_of_the_stride_is_refused(tmp_path: Path) -> None:
    save(tmp_path, entry(), fake_detector(*ANSWER))
    with pytest.raises(ModelError, match="60x64"):
        load_detector("fake", input_size=(60, 64), threads=1, models_dir=tmp_path)


def test_native_mode_is_refused_where_the_size_is_fixed(tmp_path: Path) -> None:
    save(tmp_path, entry(), fake_detector(*ANSWER))
    with pytest.raises(ModelError, match="native mode cannot be used"):
        load_detector("fake", input_size=None, threads=1, models_dir=tmp_path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"head": "yolo99"}, "unknown output head 'yolo99'"), ({"outputs": ("scores",)}, "declares 1 outputs")],
)
def test_a_contract_that_no_head_can_read_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        load(tmp_path, fake_detector(*ANSWER), entry(**changes))


def test_no_threads_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="0 inference threads"):
        load(tmp_path, fake_detector(*ANSWER), threads=0)


def test_the_label_file_wins_over_the_metadata_and_its_length_is_checked(tmp_path: Path) -> None:
    made = fake_detector(*ANSWER, metadata={"names": "['x', 'y', 'z']"})
    assert load(tmp_path, made).labels == ("x", "y", "z")
    named = msgspec.structs.replace(entry(), labels="names.txt")
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    assert load(tmp_path, made, named).labels == ("a", "b", "c")
    (tmp_path / "names.txt").write_text("\n".join(f"n{i}" for i in range(80)))
    with pytest.raises(ModelError, match="80 class names, but the model has 3"):
        load(tmp_path, made, named)


def test_the_threads_used_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        load(tmp_path, fake_detector(*ANSWER), threads=2)
    assert "2 inference threads" in caplog.text
