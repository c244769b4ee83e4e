"""Making an ONNX detector smaller: without the classes that nobody asks for.

What is removed from a convolution is removed from all that reads it, so the graph stays whole and its head keeps its
contract with fewer classes.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from pipeline.errors import ModelError


def keep_classes(model: Any, outputs: Sequence[str], classes: int, kept: Sequence[int]) -> Any:
    """A copy of a model whose class ``outputs`` (batch, cells, classes) hold the ``kept`` classes alone, in that order.

    Each is made by a convolution whose first ``classes`` channels are split off. Raises ModelError where it is not.
    """
    smaller = onnx.ModelProto()
    smaller.CopyFrom(model)
    graph = _Graph(smaller)
    for output in outputs:
        shape, split, conv = (graph.above(output, kind) for kind in ("Reshape", "Split", "Conv"))
        sizes = graph.array(split.input[1])
        if sizes[0] != classes:
            raise ModelError(f"Output {output} is not split off {classes} class channels, so no class can be left out.")
        rows = np.array([*kept, *range(classes, int(sizes.sum()))])
        for name in conv.input[1:3]:
            graph.replace(name, graph.array(name)[rows])
        graph.own(split, 1, np.array([len(kept), *sizes[1:]], dtype=sizes.dtype))
        graph.own(shape, 1, np.where(graph.array(shape.input[1]) == classes, len(kept), graph.array(shape.input[1])))
        declared = next(item for item in smaller.graph.output if item.name == output)
        declared.type.tensor_type.shape.dim[2].dim_value = len(kept)
    return smaller


def with_labels(model: Any, labels: Sequence[str]) -> Any:
    """The model with its class names in its own metadata, where every reader of ONNX detectors looks for them."""
    onnx.helper.set_model_props(model, {"names": json.dumps(list(labels))})
    return model


class _Graph:
    """Constants and makers of a graph's tensors, looked up by name."""

    def __init__(self, model: Any) -> None:
        self._graph = model.graph
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self._makers = {name: node for node in model.graph.node for name in node.output}

    def above(self, tensor: str, kind: str) -> Any:
        """The nearest node of a kind that the first inputs lead up to."""
        node = self._makers.get(tensor)
        while node is not None and node.op_type != kind:
            node = self._makers.get(node.input[0])
        if node is None:
            raise ModelError(f"No {kind} makes the output {tensor}, so the model cannot be made smaller here.")
        return node

    def array(self, name: str) -> NDArray[Any]:
        """A constant's values."""
        return np.asarray(numpy_helper.to_array(self._tensors[self._stored(name)]))

    def replace(self, name: str, values: NDArray[Any]) -> None:
        """Other values for a constant, in all nodes that read it."""
        stored = self._stored(name)
        self._tensors[stored].CopyFrom(numpy_helper.from_array(values, stored))

    def own(self, node: Any, index: int, values: NDArray[Any]) -> None:
        """Other values for one node's constant, which other nodes may share; without readers it is gone."""
        former = node.input[index]
        name = f"{node.name or node.output[0]}_{index}_kept"
        tensor = numpy_helper.from_array(values, name)
        self._graph.initializer.append(tensor)
        self._tensors[name] = self._graph.initializer[-1]
        node.input[index] = name
        if not any(former in other.input for other in self._graph.node):
            self._graph.initializer.remove(self._tensors.pop(former))

    def _stored(self, name: str) -> str:
        maker = self._makers.get(name)
        return maker.input[0] if name not in self._tensors and maker is not None else name
