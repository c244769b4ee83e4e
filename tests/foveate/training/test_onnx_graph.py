from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from foveate.training.onnx_graph import OnnxNetwork, read_model, with_weights
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.detectors.session import open_session
from pipeline.errors import ModelError
from tests.support.small_nanodet import pictures, small_nanodet


def off_by(path: Path, network: OnnxNetwork, inputs: np.typing.NDArray[np.float32]) -> float:
    """The largest difference of any output between onnxruntime and the network."""
    expected = open_session(path, 1, one_shape=False).run(list(network.outputs), {network.input: inputs})
    with torch.inference_mode():
        found = network(torch.from_numpy(inputs))
    return max(
        float(np.abs(each - found[name].numpy()).max()) for name, each in zip(network.outputs, expected, strict=True)
    )


@pytest.mark.parametrize("size", [(96, 128), (64, 160)])
def test_the_network_computes_what_onnxruntime_computes_at_any_size(tmp_path: Path, size: tuple[int, int]) -> None:
    onnx.save(small_nanodet(), tmp_path / "small.onnx")
    network = OnnxNetwork(read_model(tmp_path / "small.onnx"))
    assert off_by(tmp_path / "small.onnx", network, pictures(2, *size)) < 1e-4


def test_the_general_model_is_the_same_in_both() -> None:
    manifest = read_manifest()
    path = verified_path(manifest, manifest.entry("nanodet-g"))
    assert off_by(path, OnnxNetwork(read_model(path)), pictures(2, 96, 128)) < 1e-4


def test_changed_weights_are_written_back_into_the_same_graph(tmp_path: Path) -> None:
    model = small_nanodet()
    network = OnnxNetwork(model)
    with torch.no_grad():
        for value in network.weights.values():
            value.add_(torch.randn_like(value) * 0.05)
    changed = with_weights(model, {name: value.detach().numpy() for name, value in network.weights.items()})
    onnx.save(changed, tmp_path / "changed.onnx")
    assert off_by(tmp_path / "changed.onnx", network, pictures(1)) < 0.05  # stored as float16
    assert off_by(tmp_path / "changed.onnx", OnnxNetwork(changed), pictures(1)) < 1e-4
    assert [tensor.data_type for tensor in changed.graph.initializer] == [t.data_type for t in model.graph.initializer]


def test_only_what_is_asked_for_is_computed_and_logits_can_be_asked_for() -> None:
    network = OnnxNetwork(small_nanodet())
    before = network.before_sigmoid("scores")
    values = network(torch.from_numpy(pictures(1)), [before, "scores"])
    assert list(values) == [before, "scores"]
    assert torch.allclose(values[before].sigmoid().flatten(2).transpose(1, 2), values["scores"])


def test_an_output_without_a_sigmoid_is_refused() -> None:
    with pytest.raises(ModelError, match="not from a Sigmoid"):
        OnnxNetwork(small_nanodet()).before_sigmoid("distances")


def test_an_operator_that_cannot_be_trained_is_named() -> None:
    model = small_nanodet()
    model.graph.node.append(helper.make_node("Softmax", ["scores"], ["soft"]))
    with pytest.raises(ModelError, match="Softmax"):
        OnnxNetwork(model)


def test_a_file_that_is_no_model_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"no\.onnx"):
        read_model(tmp_path / "no.onnx")
