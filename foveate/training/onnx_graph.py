"""An ONNX detector as a PyTorch module: its few operators interpreted, its weights trainable, and written back.

No converter stands between: what is trained is the graph that is shipped, and only its numbers change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor
from torch.nn import functional

from pipeline.detectors.onnx_header import NotOnnxError, read_header
from pipeline.errors import ModelError

Operator = Callable[[Sequence[Any], Mapping[str, Any]], Any]


class OnnxNetwork:
    """The graph of an ONNX model over a batch of pictures.

    ``weights`` are the weights and biases of its convolutions by their names in the file, float32 whatever they are
    stored as, and can be trained; everything else is a constant. Raises ModelError for an operator it does not know.
    """

    def __init__(self, model: Any) -> None:
        graph = model.graph
        self.input = graph.input[0].name
        self.outputs = tuple(output.name for output in graph.output)
        self._constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self._casts: dict[str, str] = {}
        self._nodes: list[tuple[str, tuple[str, ...], tuple[str, ...], dict[str, Any]]] = []
        for node in graph.node:
            if node.op_type == "Cast" and node.input[0] in self._constants:
                self._casts[node.output[0]] = node.input[0]
                continue
            if node.op_type not in OPERATORS:
                raise ModelError(f"The model uses the ONNX operator {node.op_type}, which cannot be trained here yet.")
            attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
            self._nodes.append((node.op_type, tuple(node.input), tuple(node.output), attributes))
        self.weights: dict[str, Tensor] = {}
        for operator, inputs, _, _ in self._nodes:
            for name in inputs[1:] if operator == "Conv" else ():
                stored = self._constants[self.stored_name(name)].astype(np.float32)
                self.weights[self.stored_name(name)] = torch.from_numpy(stored.copy()).requires_grad_()

    def stored_name(self, name: str) -> str:
        """The initializer behind a tensor that a node reads."""
        return self._casts.get(name, name)

    def convolutions(self) -> list[tuple[str, str]]:
        """Weight and bias names of every convolution, in the order of the graph."""
        return [
            (self.stored_name(inputs[1]), self.stored_name(inputs[2]))
            for operator, inputs, _, _ in self._nodes
            if operator == "Conv"
        ]

    def convolution_above(self, name: str) -> tuple[str, str]:
        """Weight and bias names of the nearest convolution on the way up from a tensor. Raises ModelError."""
        for operator, inputs, outputs, _ in reversed(self._nodes):
            if name in outputs:
                if operator == "Conv":
                    return self.stored_name(inputs[1]), self.stored_name(inputs[2])
                name = inputs[0]
        raise ModelError(f"No convolution makes the tensor {name} of the model.")

    def copy(self) -> dict[str, Tensor]:
        """All weights as they are now."""
        return {name: value.detach().clone() for name, value in self.weights.items()}

    def put(self, weights: Mapping[str, Tensor]) -> None:
        """Take other values for the named weights."""
        with torch.no_grad():
            for name, value in weights.items():
                self.weights[name].copy_(value)

    def before_sigmoid(self, name: str) -> str:
        """The tensor (batch, classes, rows, columns) whose sigmoid becomes the output ``name`` (batch, cells, classes).

        Raises ModelError where the output is made another way.
        """
        kinds = []
        for operator, inputs, outputs, _ in reversed(self._nodes):
            if name in outputs:
                kinds.append(operator)
                name = inputs[0]
                if operator == "Sigmoid":
                    break
        if kinds != ["Transpose", "Reshape", "Sigmoid"]:
            raise ModelError(f"An output of the model is made by {', '.join(kinds) or 'nothing'}, not from a Sigmoid.")
        return name

    def __call__(self, pictures: Tensor, wanted: Iterable[str] | None = None) -> dict[str, Tensor]:
        """The ``wanted`` tensors by name (None: the outputs) for pictures (batch, 3, height, width) float32."""
        names = tuple(self.outputs if wanted is None else wanted)
        needed = self._needed(names)
        values: dict[str, Any] = {self.input: pictures}
        for operator, inputs, outputs, attributes in self._nodes:
            if not needed.isdisjoint(outputs):
                result = OPERATORS[operator]([self._value(name, values) for name in inputs], attributes)
                values.update(zip(outputs, result if isinstance(result, tuple) else (result,), strict=True))
        return {name: values[name] for name in names}

    def _value(self, name: str, values: Mapping[str, Any]) -> Any:
        if name in values:
            return values[name]
        stored = self.stored_name(name)
        return self.weights[stored] if stored in self.weights else self._constants.get(stored)

    def _needed(self, names: Sequence[str]) -> set[str]:
        needed = set(names)
        for _, inputs, outputs, _ in reversed(self._nodes):
            if not needed.isdisjoint(outputs):
                needed.update(inputs)
        return needed


def read_model(path: Path) -> Any:
    """The ONNX model of a file. Raises ModelError where it cannot be read."""
    try:
        data = path.read_bytes()
        read_header(data)
        return onnx.load_model_from_string(data)
    except (OSError, NotOnnxError) as error:
        raise ModelError(f"Cannot read {path} as an ONNX model ({error}): fetch it again.") from error


def with_weights(model: Any, weights: Mapping[str, NDArray[Any]]) -> Any:
    """A copy of the model with other values for the named initializers, each stored in the dtype it had."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for tensor in changed.graph.initializer:
        if tensor.name in weights:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name].astype(dtype), tensor.name))
    return changed


def _conv(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor:
    picture, weight, *bias = inputs
    return functional.conv2d(
        picture,
        weight,
        bias[0] if bias else None,
        stride=tuple(attributes.get("strides", (1, 1))),
        padding=_padding(attributes),
        dilation=tuple(attributes.get("dilations", (1, 1))),
        groups=attributes.get("group", 1),
    )


def _max_pool(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor:
    return functional.max_pool2d(
        inputs[0],
        tuple(attributes["kernel_shape"]),
        stride=tuple(attributes.get("strides", (1, 1))),
        padding=_padding(attributes),
    )


def _padding(attributes: Mapping[str, Any]) -> tuple[int, int]:
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    if (top, left) != (bottom, right):
        raise ModelError(f"A padding of {top}, {left}, {bottom}, {right} is not even and cannot be trained here yet.")
    return top, left


def _resize(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Tensor:
    if attributes.get("mode") != b"linear" or attributes.get("coordinate_transformation_mode") != b"half_pixel":
        raise ModelError("Only a linear half_pixel Resize can be trained here yet.")
    vertical, horizontal = (float(scale) for scale in inputs[2][2:])
    return functional.interpolate(
        inputs[0], scale_factor=(vertical, horizontal), mode="bilinear", align_corners=False, antialias=False
    )


def _split(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Tensor, ...]:
    return tuple(torch.split(inputs[0], [int(size) for size in inputs[1]], dim=attributes.get("axis", 0)))


def _reshape(inputs: Sequence[Any], _: Mapping[str, Any]) -> Tensor:
    # 0 keeps the dimension that is there.
    tensor: Tensor = inputs[0]
    return tensor.reshape([tensor.shape[axis] if size == 0 else int(size) for axis, size in enumerate(inputs[1])])


OPERATORS: dict[str, Operator] = {
    "Add": lambda inputs, _: inputs[0] + inputs[1],
    "Concat": lambda inputs, attributes: torch.cat(list(inputs), dim=attributes["axis"]),
    "Conv": _conv,
    "LeakyRelu": lambda inputs, attributes: functional.leaky_relu(inputs[0], attributes.get("alpha", 0.01)),
    "MaxPool": _max_pool,
    "Relu": lambda inputs, _: functional.relu(inputs[0]),
    "Reshape": _reshape,
    "Resize": _resize,
    "Sigmoid": lambda inputs, _: torch.sigmoid(inputs[0]),
    "Split": _split,
    "Transpose": lambda inputs, attributes: inputs[0].permute(*attributes["perm"]),
}
