"""Changes to an ONNX graph that leave what it computes alone. Needs onnx and numpy, nothing else."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

PADDABLE = ("Conv", "MaxPool")
"""Operators that can pad by themselves."""


def fold_pads(model: ModelProto) -> int:
    """Move each spatial Pad node into the Conv or MaxPool that alone reads it; the number of nodes folded.

    A Pad is folded only where the operator pads with the same value: 0 for Conv, minus infinity for MaxPool.
    """
    graph = model.graph
    constants = _constants(graph)
    outputs = {output.name for output in graph.output}
    folded = 0
    for pad in [node for node in graph.node if node.op_type == "Pad"]:
        readers = [node for node in graph.node if pad.output[0] in node.input]
        if len(readers) != 1 or pad.output[0] in outputs or readers[0].input[0] != pad.output[0]:
            continue
        sides = _spatial_pads(pad, readers[0], constants)
        if sides is None:
            continue
        reader = readers[0]
        own = list(_attribute(reader, "pads", [0] * len(sides)))
        _set_attribute(reader, "pads", [int(a + b) for a, b in zip(own, sides, strict=True)])
        reader.input[0] = pad.input[0]
        graph.node.remove(pad)
        folded += 1
    return folded


def _spatial_pads(pad: NodeProto, reader: NodeProto, constants: Mapping[str, np.ndarray]) -> list[int] | None:
    if reader.op_type not in PADDABLE or _attribute(pad, "mode", b"constant") != b"constant":
        return None
    if _attribute(reader, "auto_pad", b"NOTSET") != b"NOTSET" or len(pad.input) > 3 or pad.input[1] not in constants:
        return None
    value = 0.0
    if len(pad.input) == 3 and pad.input[2]:
        if pad.input[2] not in constants:
            return None
        value = float(constants[pad.input[2]].reshape(()))
    if value != (0.0 if reader.op_type == "Conv" else -np.inf):
        return None
    amounts = constants[pad.input[1]]
    rank = len(amounts) // 2
    begin, end = amounts[:rank], amounts[rank:]
    if begin[:2].any() or end[:2].any() or (amounts < 0).any():
        return None
    return [*begin[2:].tolist(), *end[2:].tolist()]


def free_reshapes(model: ModelProto, channels: Mapping[str, int]) -> int:
    """Let the Reshape nodes that read the named tensors take [0, channels, -1]; the number of nodes changed."""
    changed = 0
    for node in model.graph.node:
        if node.op_type != "Reshape" or node.input[0] not in channels:
            continue
        count = channels[node.input[0]]
        shape = f"shape_0_{count}_-1"
        if shape not in _constants(model.graph):
            model.graph.initializer.append(numpy_helper.from_array(np.array([0, count, -1], np.int64), shape))
        node.input[1] = shape
        changed += 1
    return changed


def rename(model: ModelProto, names: Mapping[str, str]) -> None:
    """Give tensors other names, wherever they occur."""
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)


def set_shape(value: onnx.ValueInfoProto, shape: list[int | str]) -> None:
    """Declare the shape of a graph input or output; a text is the name of a free dimension."""
    value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape))


def sort_outputs(model: ModelProto, names: list[str]) -> None:
    """Put the graph outputs into the given order."""
    by_name = {output.name: output for output in model.graph.output}
    ordered = [by_name[name] for name in names]
    del model.graph.output[:]
    model.graph.output.extend(ordered)


def drop_unused(model: ModelProto) -> None:
    """Remove nodes and initializers from which no output follows, and stored intermediate shapes."""
    graph = model.graph
    wanted = {output.name for output in graph.output}
    kept: list[NodeProto] = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    initializers = [tensor for tensor in graph.initializer if tensor.name in wanted]
    del graph.initializer[:]
    graph.initializer.extend(initializers)
    del graph.value_info[:]


def canonicalise(model: ModelProto) -> None:
    """Order and name nodes and weights by the graph's structure alone, so that equal graphs become equal files."""
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    fixed = {value.name for value in (*graph.input, *graph.output)}
    ordered = _depth_first(graph)
    names: dict[str, str] = {}
    for index, node in enumerate(ordered):
        node.name = f"{node.op_type.lower()}_{index}"
        for place, name in enumerate(node.input):
            if name in tensors:
                names.setdefault(name, f"{node.name}_input_{place}")
        for place, name in enumerate(node.output):
            if name and name not in fixed:
                names[name] = node.name if place == 0 else f"{node.name}_{place}"
    del graph.node[:]
    graph.node.extend(ordered)
    weights = [tensors[name] for name in names if name in tensors]
    del graph.initializer[:]
    graph.initializer.extend(weights)
    for tensor in graph.initializer:
        tensor.name = names[tensor.name]
    rename(model, names)


def _depth_first(graph: GraphProto) -> list[NodeProto]:
    makers = {name: node for node in graph.node for name in node.output if name}
    ordered: list[NodeProto] = []
    done: set[str] = set()
    stack = [output.name for output in reversed(graph.output)]
    while stack:
        name = stack[-1]
        node = makers.get(name)
        waiting = (
            [] if node is None or name in done else [i for i in reversed(node.input) if i in makers and i not in done]
        )
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if node is not None and name not in done:
            done.update(node.output)
            ordered.append(node)
    return ordered


def store_float16(model: ModelProto, least_values: int = 16) -> int:
    """Store float32 initializers as float16 with a Cast, where not one bit is lost; the number of tensors stored so.

    Tensors of fewer than ``least_values`` values stay, as the Cast would take more room than it saves.
    """
    graph = model.graph
    casts: list[NodeProto] = []
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        exact = numpy_helper.to_array(tensor)
        half = exact.astype(np.float16)
        if exact.size < least_values or not np.array_equal(half.astype(np.float32), exact):
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(half, name + "_f16"))
        casts.append(helper.make_node("Cast", [tensor.name], [name], name=name + "_cast", to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return len(casts)


def _constants(graph: GraphProto) -> dict[str, np.ndarray]:
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if _small(tensor)}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return constants


def _small(tensor: TensorProto) -> bool:
    return int(np.prod(tensor.dims, dtype=np.int64)) <= 64


def _attribute(node: NodeProto, name: str, default: object) -> object:
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def _set_attribute(node: NodeProto, name: str, value: list[int]) -> None:
    for attribute in node.attribute:
        if attribute.name == name:
            node.attribute.remove(attribute)
            break
    node.attribute.append(helper.make_attribute(name, value))
