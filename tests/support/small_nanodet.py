"""A network of the NanoDet kind that is small enough to be trained in a test, with weights that know nothing."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from foveate.training.order import BaseModel
from pipeline.detectors.contract import InputContract, ModelEntry, OutputContract

LABELS = ("dog", "person", "kite")
BINS, STRIDE, WIDTH = 6, 8, 8
SIDES = 4 * BINS


def small_nanodet(seed: int = 0) -> Any:
    """The model: three strided convolutions, a merge of two scales, and the head; weights stored as float16."""
    rng = np.random.default_rng(seed)
    constants = {
        "sizes": np.array([len(LABELS), SIDES], np.int64),
        "as_scores": np.array([0, len(LABELS), -1], np.int64),
        "as_sides": np.array([0, SIDES, -1], np.int64),
        "nothing": np.empty(0, np.float32),
        "double": np.array([1, 1, 2, 2], np.float32),
    }
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    nodes: list[Any] = []

    def conv(name: str, source: str, shape: tuple[int, int], stride: int, kernel: int = 3) -> None:
        weight = rng.normal(0, (2 / (shape[1] * kernel**2)) ** 0.5, (*shape, kernel, kernel)).astype(np.float16)
        for part, values in (("w", weight), ("b", np.zeros(shape[0], np.float16))):
            tensors.append(numpy_helper.from_array(values, f"{name}.{part}"))
            nodes.append(helper.make_node("Cast", [f"{name}.{part}"], [f"{name}_{part}"], to=TensorProto.FLOAT))
        pads, size = [kernel // 2] * 4, [kernel, kernel]
        nodes.append(
            helper.make_node(
                "Conv", [source, f"{name}_w", f"{name}_b"], [name], strides=[stride] * 2, kernel_shape=size, pads=pads
            )
        )

    def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        nodes.append(helper.make_node(kind, inputs, outputs, **attributes))

    conv("at_2", "image", (WIDTH, 3), 2)
    node("LeakyRelu", ["at_2"], ["at_2_on"], alpha=0.1)
    conv("at_4", "at_2_on", (WIDTH, WIDTH), 2)
    node("LeakyRelu", ["at_4"], ["at_4_on"], alpha=0.1)
    node("MaxPool", ["at_4_on"], ["at_8"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    conv("at_16", "at_8", (WIDTH, WIDTH), 2)
    node(
        "Resize",
        ["at_16", "nothing", "double"],
        ["at_16_up"],
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    )
    node("Concat", ["at_8", "at_16_up"], ["both"], axis=1)
    conv("merged", "both", (WIDTH, 2 * WIDTH), 1)
    node("Add", ["merged", "at_8"], ["sum"])
    conv("head", "sum", (len(LABELS) + SIDES, WIDTH), 1, kernel=1)
    node("Split", ["head", "sizes"], ["logits", "sides"], axis=1)
    node("Sigmoid", ["logits"], ["chance"])
    node("Reshape", ["chance", "as_scores"], ["chance_flat"])
    node("Transpose", ["chance_flat"], ["scores"], perm=[0, 2, 1])
    node("Reshape", ["sides", "as_sides"], ["sides_flat"])
    node("Transpose", ["sides_flat"], ["distances"], perm=[0, 2, 1])
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "cells", size])
        for name, size in (("scores", len(LABELS)), ("distances", SIDES))
    ]
    graph = helper.make_graph(nodes, "small", [image], outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def small_base(folder: Path, input_size: tuple[int, int] = (96, 128)) -> BaseModel:
    """The model in a file, as a training is told of it."""
    path = folder / "small.onnx"
    onnx.save(small_nanodet(), path)
    contract = InputContract(
        name="image",
        layout="NCHW",
        colour="bgr",
        dtype="float32",
        scale=1.0,
        mean=(100.0, 110.0, 120.0),
        std=(50.0, 60.0, 70.0),
        resize="letterbox_top_left",
        pad_value=114,
        stride_px=16,
        size_px=input_size,
        largest_px=input_size,
    )
    output = OutputContract(
        head="nanodet", outputs=("scores", "distances"), strides=(STRIDE,), classes=len(LABELS), bins=BINS
    )
    entry = ModelEntry(
        name="small",
        version="1",
        file=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        licence="Apache-2.0",
        source="made by a test",
        input=contract,
        output=output,
    )
    return BaseModel(file=path, entry=entry, labels=LABELS, input_size=input_size)


def pictures(count: int, height: int = 96, width: int = 128, seed: int = 1) -> NDArray[np.float32]:
    """Random network inputs (count, 3, height, width)."""
    return np.random.default_rng(seed).normal(0, 1, (count, 3, height, width)).astype(np.float32)
