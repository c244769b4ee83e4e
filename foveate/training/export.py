"""Writing a trained student as ONNX: pixels as they are go in, peaks and distances come out.

The graph is written operation by operation from the network's weights, so it needs no tracer, and nothing else is in
it. Normalisation of the pixels and suppression of cells beside a peak belong to it, batch normalisation is folded away.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from foveate.training.judge import output_contract
from foveate.training.network import COARSEST_PX, MOST_LOG_REACH, SPREAD, Separable, Student, Unit
from pipeline.detectors.contract import HeightWidth, InputContract, ModelEntry

OPSET = 17
IR_VERSION = 8
INPUT = "picture"
LARGEST_PX = (1088, 1920)
LICENCE = "Apache-2.0"


class GraphWriter:
    """Nodes and weights in the order of writing; each method adds a node and gives the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def tensor(self, values: NDArray[Any]) -> str:
        """Add a constant."""
        name = f"t{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(values, name))
        return name

    def node(self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """Add an operation."""
        name = output or f"x{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{len(self.nodes)}", **attributes))
        return name

    def conv(self, x: str, weight: NDArray[np.float32], bias: NDArray[np.float32], stride: int, groups: int) -> str:
        """Add a convolution that keeps the sides, or divides them by ``stride``."""
        kernel = weight.shape[2]
        return self.node(
            "Conv",
            [x, self.tensor(weight), self.tensor(bias)],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def unit(self, x: str, unit: Unit) -> str:
        """Add a convolution with its normalisation folded in."""
        y = self.conv(x, *folded(unit), stride=unit.conv.stride[0], groups=unit.conv.groups)
        return self.node("Relu", [y]) if unit.active else y

    def separable(self, x: str, block: Separable) -> str:
        """Add a block."""
        y = self.unit(self.unit(x, block.depthwise), block.pointwise)
        return self.node("Add", [x, y]) if block.residual else y

    def separables(self, x: str, blocks: Iterable[Separable]) -> str:
        """Add blocks one after another."""
        for block in blocks:
            x = self.separable(x, block)
        return x

    def doubled(self, x: str) -> str:
        """Add an enlargement to twice the sides that repeats each cell."""
        scales = self.tensor(np.array([1, 1, 2, 2], np.float32))
        return self.node(
            "Resize",
            [x, "", scales],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )


def folded(unit: Unit) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The kernel and bias that do what a unit's convolution and normalisation do at inference."""
    norm = unit.norm
    gain = norm.weight.detach().double() / (norm.running_var.double() + norm.eps).sqrt()
    weight = unit.conv.weight.detach().double() * gain[:, None, None, None]
    bias = norm.bias.detach().double() - norm.running_mean.double() * gain
    return weight.float().cpu().numpy(), bias.float().cpu().numpy()


def write(student: Student, labels: Sequence[str], path: Path) -> None:
    """Write the student's graph; height and width of its input stay free, the class names are in its metadata."""
    graph = GraphWriter()
    _write_outputs(graph, student, _write_body(graph, student))
    shapes = {"score": ["batch", len(labels), "rows", "columns"], "reach": ["batch", 4, "rows", "columns"]}
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "student",
            [helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["batch", "height", "width", 3])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
            graph.tensors,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="foveate",
    )
    helper.set_model_props(model, {"names": json.dumps(list(labels))})
    onnx.checker.check_model(model)
    onnx.save(model, path)


def _write_body(graph: GraphWriter, student: Student) -> str:
    """The layers up to the heads' input; see ``Student.forward``."""
    x = graph.node("Transpose", [graph.node("Cast", [INPUT], to=TensorProto.FLOAT)], perm=[0, 3, 1, 2])
    weight, bias = folded(student.stem)
    x = graph.node("Relu", [graph.conv(x, weight / np.float32(SPREAD), bias, stride=2, groups=1)])
    at_4 = graph.separables(x, student.to_4)
    at_8 = graph.separables(at_4, student.to_8)
    y = graph.unit(graph.separables(at_8, student.to_16), student.side_16)
    y = graph.separable(graph.node("Add", [graph.doubled(y), graph.unit(at_8, student.side_8)]), student.merge_8)
    return graph.separable(graph.node("Add", [graph.doubled(y), graph.unit(at_4, student.side_4)]), student.merge_4)


def _write_outputs(graph: GraphWriter, student: Student, y: str) -> None:
    """Peaks, see ``judge.peaks``, and distances."""
    logits, log_reach = (
        graph.conv(y, head.weight.detach().numpy(), head.bias.detach().numpy(), stride=1, groups=1)
        for head in (student.centre, student.reach)
    )
    score = graph.node("Sigmoid", [logits])
    highest = graph.node("MaxPool", [score], kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    is_peak = graph.node("Cast", [graph.node("GreaterOrEqual", [score, highest])], to=TensorProto.FLOAT)
    graph.node("Mul", [score, is_peak], "score")
    limit = graph.tensor(np.array(MOST_LOG_REACH, np.float32))
    graph.node("Exp", [graph.node("Clip", [log_reach, "", limit])], "reach")


def entry(path: Path, camera: str, labels: Sequence[str], input_px: HeightWidth, source: str) -> ModelEntry:
    """The contract of a written student; its version is the beginning of the file's SHA-256."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return ModelEntry(
        name=f"{camera}-own",
        version=digest[:12],
        file=path.name,
        sha256=digest,
        licence=LICENCE,
        source=source,
        input=InputContract(
            name=INPUT,
            layout="NHWC",
            colour="bgr",
            dtype="uint8",
            scale=1.0,
            mean=(0.0, 0.0, 0.0),
            std=(1.0, 1.0, 1.0),
            resize="stretch",
            pad_value=127,
            stride_px=COARSEST_PX,
            size_px=input_px,
            largest_px=LARGEST_PX,
        ),
        output=output_contract(len(labels)),
    )
