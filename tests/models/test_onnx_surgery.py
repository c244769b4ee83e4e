from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.support.scripts import load_script

surgery = load_script("models/onnx_surgery.py")
RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(4, 3, 3, 3)).astype(np.float16).astype(np.float32)


def graph(nodes: list[onnx.NodeProto], constants: dict[str, Any], outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    made = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model: onnx.ModelProto, shape: tuple[int, ...] = (1, 3, 16, 16)) -> list[NDArray[np.float32]]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    image = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    outputs: list[NDArray[np.float32]] = session.run(None, {"x": image})
    return outputs


def padded(
    operator: str, amounts: list[int], value: float | None = None, mode: str = "constant", **attributes: Any
) -> onnx.ModelProto:
    constants: dict[str, Any] = {"pads": np.array(amounts, np.int64)}
    inputs = ["x", "pads"]
    if value is not None:
        constants["value"] = np.float32(value)
        inputs.append("value")
    read = ["p"]
    if operator == "Conv":
        constants["w"] = WEIGHT
        read.append("w")
    nodes = [
        helper.make_node("Pad", inputs, ["p"], mode=mode),
        helper.make_node(operator, read, ["y"], kernel_shape=[3, 3], **attributes),
    ]
    return graph(nodes, constants)


@pytest.mark.parametrize(
    "model",
    [
        padded("Conv", [0, 0, 1, 1, 0, 0, 1, 1], strides=[2, 2]),
        padded("Conv", [0, 0, 0, 1, 0, 0, 1, 2], 0.0, pads=[1, 0, 0, 0]),
        padded("MaxPool", [0, 0, 1, 1, 0, 0, 1, 1], -np.inf, strides=[2, 2]),
    ],
)
def test_a_pad_is_folded_into_the_operator_that_pads_alike(model: onnx.ModelProto) -> None:
    before = run(model)
    assert surgery.fold_pads(model) == 1
    assert [node.op_type for node in model.graph.node if node.op_type == "Pad"] == []
    np.testing.assert_allclose(run(model)[0], before[0], atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        padded("Conv", [0, 0, 1, 1, 0, 0, 1, 1], 1.0),
        padded("Conv", [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"),
        padded("Conv", [0, 0, 1, 1, 0, 0, 1, 1], auto_pad="SAME_UPPER"),
        padded("Conv", [0, 0, 2, 2, 0, 0, -1, -1]),
        padded("MaxPool", [0, 1, 1, 1, 0, 0, 1, 1], -np.inf),
        padded("MaxPool", [0, 0, 1, 1, 0, 0, 1, 1], 0.0),
        padded("AveragePool", [0, 0, 1, 1, 0, 0, 1, 1]),
    ],
)
def test_a_pad_that_means_something_else_stays(model: onnx.ModelProto) -> None:
    before = model.SerializeToString()
    assert surgery.fold_pads(model) == 0
    assert model.SerializeToString() == before


def test_a_pad_that_two_nodes_read_stays() -> None:
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"]),
        helper.make_node("Conv", ["p", "w"], ["y"], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["p"], ["z"]),
    ]
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    assert surgery.fold_pads(graph(nodes, {"pads": pads, "w": WEIGHT}, ("y", "z"))) == 0


def flattened() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["relu"]),
        helper.make_node("Reshape", ["relu", "shape"], ["flat"]),
        helper.make_node("Mul", ["flat", "gain"], ["y"]),
        helper.make_node("Neg", ["x"], ["unread"]),
    ]
    constants = {"shape": np.array([1, 3, -1], np.int64), "gain": np.float32(0.1), "stale": np.ones(9, np.float32)}
    return graph(nodes, constants)


def test_a_freed_graph_takes_any_batch_and_size_and_gives_the_same_at_the_old_one() -> None:
    model = flattened()
    before = run(model)
    assert surgery.free_reshapes(model, {"relu": 3}) == 1
    surgery.set_shape(model.graph.input[0], ["batch", 3, "height", "width"])
    np.testing.assert_array_equal(run(model)[0], before[0])
    assert run(model, (2, 3, 8, 40))[0].shape == (2, 3, 320)


def test_what_no_output_needs_is_dropped() -> None:
    model = flattened()
    surgery.drop_unused(model)
    assert [node.op_type for node in model.graph.node] == ["Relu", "Reshape", "Mul"]
    assert [tensor.name for tensor in model.graph.initializer] == ["shape", "gain"]


def test_weights_are_halved_only_where_no_bit_is_lost() -> None:
    exact = WEIGHT
    inexact = exact + np.float32(1e-6)
    nodes = [
        helper.make_node("Conv", ["x", "exact"], ["a"], kernel_shape=[3, 3]),
        helper.make_node("Conv", ["x", "inexact"], ["b"], kernel_shape=[3, 3]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    model = graph(nodes, {"exact": exact, "inexact": inexact})
    before = run(model)
    assert surgery.store_float16(model) == 1
    types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert types == {"exact_f16": TensorProto.FLOAT16, "inexact": TensorProto.FLOAT}
    np.testing.assert_array_equal(run(model)[0], before[0])


def test_graphs_that_differ_in_names_and_order_alone_become_the_same_bytes() -> None:
    def branches(names: list[str], swap: bool) -> onnx.ModelProto:
        a, b, weight, gain = names
        nodes = [
            helper.make_node("Conv", ["x", weight], [a], name=a, kernel_shape=[3, 3]),
            helper.make_node("Mul", [a, gain], [b], name=b),
            helper.make_node("Add", [a, b], ["y"], name="sum"),
        ]
        constants = {weight: WEIGHT, gain: np.float32(2)}
        if swap:
            constants = dict(reversed(constants.items()))
        return graph(nodes, constants)

    first, second = branches(["a", "b", "w", "g"], swap=False), branches(["mul_9", "conv_1", "q", "p"], swap=True)
    before = run(first)
    for model in (first, second):
        surgery.canonicalise(model)
    assert first.SerializeToString() == second.SerializeToString()
    np.testing.assert_array_equal(run(first)[0], before[0])
