import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from foveate.models.quantize import last_convolutions, quantize_file, widen_weights
from foveate.models.release import QuantizePlan, quantize_model
from pipeline.detectors.loading import load_detector
from pipeline.detectors.manifest import read_manifest
from pipeline.errors import ConfigError, ModelError, SourceError
from pipeline.timing import MonotonicClock
from tests.support.clips import write_clip
from tests.support.onnx_models import brightness_detector, entry, save
from tests.support.scripts import load_script

store_float16 = load_script("models/onnx_surgery.py").store_float16


class ScriptedClock:
    """A clock by which every first of two measurements takes 10 ms and every second ``twin_ms``."""

    def __init__(self, twin_ms: float) -> None:
        self._steps_ms = (0.0, 10.0, 0.0, twin_ms)
        self._calls = 0
        self._now_ms = 0.0

    def now_s(self) -> float:
        self._now_ms += self._steps_ms[self._calls % 4]
        self._calls += 1
        return self._now_ms / 1e3


def spots(seed: int, count: int = 12) -> list[Any]:
    """Dark pictures with bright 8x8 cells at places that a seed decides."""
    random = np.random.default_rng(seed)
    pictures = []
    for _ in range(count):
        image = np.zeros((64, 96, 3), np.uint8)
        for row, column in zip(random.permutation(8)[:3], random.permutation(12)[:3], strict=True):
            image[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = 255
        pictures.append(image)
    return pictures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    models.mkdir()
    model = brightness_detector()
    store_float16(model)
    save(models, entry("spots", {"largest_px": (64, 96), "size_px": (64, 96)}), model)
    return models


def plan(tmp_path: Path, **changes: Any) -> QuantizePlan:
    given: dict[str, Any] = {
        "name": "spots",
        "calibrate": (write_clip(tmp_path / "calibrate.avi", spots(1)),),
        "judge": write_clip(tmp_path / "judge.avi", spots(2)),
        "truth": None,
        "truth_label": "class_0",
        "size_px": (64, 96),
        "frames_per_clip": 8,
        "every": 2,
    }
    return QuantizePlan(**(given | changes))


def test_a_twin_that_is_faster_and_agrees_is_put_into_the_manifest_with_its_figures(
    tmp_path: Path, folder: Path
) -> None:
    before = read_manifest(folder).entries
    twin, verdict = quantize_model(plan(tmp_path), folder, ScriptedClock(5.0))
    after = read_manifest(folder)
    assert after.entries == (*before, twin)
    assert (twin.name, twin.measured["time_ratio"], twin.measured["frames"]) == ("spots-int8", 0.5, 6)
    assert verdict.agreement is not None
    assert verdict.agreement > 0.9
    detector = load_detector("spots-int8", input_size=(64, 96), threads=1, models_dir=folder)
    assert len(detector.detect(spots(3, 1), 0.5)[0]) == 3
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_making_a_twin_again_replaces_its_entry(tmp_path: Path, folder: Path) -> None:
    for twin_ms in (5.0, 4.0):
        twin, _ = quantize_model(plan(tmp_path), folder, ScriptedClock(twin_ms))
    assert [known.name for known in read_manifest(folder).entries] == ["spots", "spots-int8"]
    assert read_manifest(folder).entry("spots-int8").measured["time_ratio"] == twin.measured["time_ratio"] == 0.4


def test_a_twin_that_loses_is_refused_with_the_figures_and_leaves_no_trace(tmp_path: Path, folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ModelError, match=r"not faster: 12\.0 ms against 10\.0 ms \(ratio 1\.20\)") as caught:
        quantize_model(plan(tmp_path), folder, ScriptedClock(12.0))
    assert caught.value.exit_code == 5
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_clip_may_not_judge_what_it_calibrated_even_as_a_copy(tmp_path: Path, folder: Path) -> None:
    given = plan(tmp_path)
    copy = tmp_path / "copy.avi"
    shutil.copy(given.judge, copy)
    with pytest.raises(ConfigError, match=r"copy\.avi is given to calibrate and to judge"):
        quantize_model(plan(tmp_path, calibrate=(*given.calibrate, copy)), folder, MonotonicClock())


def test_a_clip_that_is_missing_or_no_video_is_named(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(SourceError, match=r"absent\.avi"):
        quantize_model(plan(tmp_path, judge=tmp_path / "absent.avi"), folder, MonotonicClock())
    text = tmp_path / "text.avi"
    text.write_text("no video")
    with pytest.raises(SourceError, match=r"text\.avi"):
        quantize_model(plan(tmp_path, calibrate=(text,)), folder, MonotonicClock())


def test_without_the_onnx_package_the_way_to_get_it_is_said(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match="make setup"):
        quantize_model(plan(tmp_path), folder, MonotonicClock())


def test_the_convolutions_before_the_outputs_stay_in_float_and_sizes_stay_free(tmp_path: Path) -> None:
    source, target = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    model = brightness_detector()
    store_float16(model)
    assert last_convolutions(model) == {"last"}
    for node in model.graph.node:
        node.name = "" if node.op_type == "Conv" else node.name  # names are optional in ONNX
    onnx.save(model, source)
    pictures = [image.transpose(2, 0, 1)[None].astype(np.float32) for image in spots(1, 4)]
    quantize_file(source, target, iter([{"image": picture} for picture in pictures]))
    twin = onnx.load(target)
    makers = {name: node for node in twin.graph.node for name in node.output}
    weights = [makers[node.input[1]].op_type for node in twin.graph.node if node.op_type == "Conv"]
    assert weights == ["DequantizeLinear", "Cast"]
    shape = [side.dim_param or side.dim_value for side in twin.graph.input[0].type.tensor_type.shape.dim]
    assert shape == ["batch", 3, "height", "width"]


def test_a_twin_keeps_the_class_names_that_its_file_tells(tmp_path: Path) -> None:
    model = brightness_detector()
    onnx.helper.set_model_props(model, {"names": '["spot"]'})
    onnx.save(model, tmp_path / "float.onnx")
    inputs = iter([{"image": image.transpose(2, 0, 1)[None].astype(np.float32)} for image in spots(1, 2)])
    quantize_file(tmp_path / "float.onnx", tmp_path / "int8.onnx", inputs)
    said = {item.key: item.value for item in onnx.load(tmp_path / "int8.onnx").metadata_props}
    assert said["names"] == '["spot"]'


def test_only_the_weights_to_be_quantised_are_widened() -> None:
    model = brightness_detector()
    store_float16(model)
    widen_weights(model, {"last"})
    types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert types["head_f16"] == onnx.TensorProto.FLOAT16
    assert "mean_f16" not in types
