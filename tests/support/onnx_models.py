"""Small ONNX detectors with known answers, and the manifests that describe them."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from foveate.models.registry import render_entry
from pipeline.detectors.contract import InputContract, ModelEntry, OutputContract

STRIDE, SIDE, CLASSES, BINS = 8, 64, 3, 11
CELLS = (SIDE // STRIDE) ** 2
FAR = -40.0
"""A logit so low that its bin has no weight."""
ONNX_TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8}


def entry(name: str = "fake", inputs: Mapping[str, Any] | None = None, **outputs: Any) -> ModelEntry:
    """A contract for the models below: NanoDet head, one stride of 8, three classes, 64x64, pixels as they are."""
    given: dict[str, Any] = {
        "name": "image",
        "layout": "NCHW",
        "colour": "bgr",
        "dtype": "float32",
        "scale": 1.0,
        "mean": (0.0, 0.0, 0.0),
        "std": (1.0, 1.0, 1.0),
        "resize": "letterbox_top_left",
        "pad_value": 114,
        "stride_px": STRIDE,
        "size_px": (SIDE, SIDE),
        "largest_px": (SIDE, SIDE),
    }
    promised: dict[str, Any] = {
        "head": "nanodet",
        "outputs": ("scores", "distances"),
        "strides": (STRIDE,),
        "classes": CLASSES,
        "bins": BINS,
    }
    return ModelEntry(
        name=name,
        version="1.0.0",
        file=f"{name}.onnx",
        sha256="0" * 64,
        licence="Apache-2.0",
        source="made by a test",
        input=InputContract(**(given | dict(inputs or {}))),
        output=OutputContract(**(promised | outputs)),
    )


def distance_logits(distance: float, bins: int = BINS) -> NDArray[np.float32]:
    """Logits (bins,) of a distribution whose mean is ``distance`` strides."""
    low = min(int(distance), bins - 2)
    share = distance - low
    logits = np.full(bins, FAR, np.float32)
    for index, weight in ((low, 1 - share), (low + 1, share)):
        if weight > 0:
            logits[index] = math.log(weight)
    return logits


def answer(
    objects: Sequence[tuple[int, int, float, Sequence[float]]], cells: int = CELLS, classes: int = CLASSES
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores (cells, classes) and distances (cells, 4 * bins) that hold (cell, class, score, four distances) each."""
    scores = np.zeros((cells, classes), np.float32)
    distances = np.zeros((cells, 4 * BINS), np.float32)
    for cell, class_id, score, sides in objects:
        scores[cell, class_id] = score
        distances[cell] = np.concatenate([distance_logits(side) for side in sides])
    return scores, distances


def fake_detector(
    scores: NDArray[np.float32],
    distances: NDArray[np.float32],
    *,
    shape: Sequence[int | str] = ("batch", 3, SIDE, SIDE),
    dtype: str = "float32",
    output_dtype: str = "float32",
    only_one: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
    """A model that gives the same answer for every picture; ``only_one``: its batch is free in name alone."""
    rows = np.array([1 if only_one else -1, 1, 1], np.int64)
    nodes = [
        helper.make_node("Cast", ["image"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["wide"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Reshape", ["nothing", "rows"], ["column"]),
    ]
    constants = {"zero": np.float32(0), "rows": rows, "s": scores[None], "d": distances[None]}
    for name, constant in (("scores", "s"), ("distances", "d")):
        nodes.append(helper.make_node("Add", ["column", constant], [f"{name}_wide"]))
        nodes.append(helper.make_node("Cast", [f"{name}_wide"], [name], to=ONNX_TYPES[output_dtype]))
    return model(nodes, constants, shape, dtype, output_dtype, metadata)


def echo_detector(layout: str = "NCHW") -> onnx.ModelProto:
    """A model whose score for class i is the mean of input channel i, in the cell at the top left."""
    shape: list[int | str] = ["batch", 3, SIDE, SIDE] if layout == "NCHW" else ["batch", SIDE, SIDE, 3]
    axes = [2, 3] if layout == "NCHW" else [1, 2]
    first = np.zeros((1, CELLS, 1), np.float32)
    first[0, 0] = 1
    _, distances = answer([(0, 0, 0.0, (0.5, 0.5, 1, 1))])
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["means"], axes=axes, keepdims=0),
        helper.make_node("Reshape", ["means", "rows"], ["columns"]),
        helper.make_node("Mul", ["columns", "first"], ["scores"]),
        helper.make_node("ReduceMean", ["columns"], ["mean"], axes=[2], keepdims=1),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "d"], ["distances"]),
    ]
    rows = np.array([-1, 1, 3], np.int64)
    constants = {"zero": np.float32(0), "rows": rows, "first": first, "d": distances[None]}
    return model(nodes, constants, shape, "float32", "float32", None)


def brightness_detector(batch: int | str = "batch", *, only_one: bool = False) -> onnx.ModelProto:
    """A model with two convolutions that finds bright 8x8 cells as class 0, at any size; boxes of one cell.

    ``only_one``: its batch is free in name alone, and what it makes of several pictures is one answer for all.
    """
    mean = np.full((4, 3, STRIDE, STRIDE), 1 / (3 * STRIDE * STRIDE * 255), np.float32)
    head = np.zeros((CLASSES + 4 * BINS, 4, 1, 1), np.float32)
    bias = np.zeros(CLASSES + 4 * BINS, np.float32)
    head[0], bias[:CLASSES] = 5.0, (-10.0, -10.0, -10.0)
    bias[CLASSES:] = np.concatenate([distance_logits(0.5)] * 4)
    nodes = [
        helper.make_node("Conv", ["image", "mean"], ["light"], name="first", kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("LeakyRelu", ["light"], ["lit"], alpha=0.1),
        helper.make_node("Conv", ["lit", "head", "bias"], ["both"], name="last", kernel_shape=[1, 1]),
        helper.make_node("Split", ["both", "parts"], ["logits", "sides"], axis=1),
        helper.make_node("Sigmoid", ["logits"], ["chances"]),
    ]
    constants = {"mean": mean, "head": head, "bias": bias, "parts": np.array([CLASSES, 4 * BINS], np.int64)}
    for source, target, channels in (("chances", "scores", CLASSES), ("sides", "distances", 4 * BINS)):
        constants[f"{target}_shape"] = np.array([1 if only_one else 0, channels, -1], np.int64)
        nodes.append(helper.make_node("Reshape", [source, f"{target}_shape"], [f"{target}_flat"]))
        nodes.append(helper.make_node("Transpose", [f"{target}_flat"], [target], perm=[0, 2, 1]))
    return model(nodes, constants, [batch, 3, "height", "width"], "float32", "float32", None)


def model(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Any],
    shape: Sequence[int | str],
    dtype: str,
    output_dtype: str,
    metadata: Mapping[str, str] | None,
) -> onnx.ModelProto:
    """Put nodes and constants together to a checked model with outputs ``scores`` and ``distances``."""
    free = [None, None, None]
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info("image", ONNX_TYPES[dtype], list(shape))],
        [helper.make_tensor_value_info(name, ONNX_TYPES[output_dtype], free) for name in ("scores", "distances")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(made, dict(metadata or {}))
    onnx.checker.check_model(made)
    return made


def save(folder: Path, described: ModelEntry, content: onnx.ModelProto | bytes) -> ModelEntry:
    """Write a model file and a manifest with its one entry; the entry with the file's hash."""
    data = content if isinstance(content, bytes) else content.SerializeToString()
    (folder / described.file).write_bytes(data)
    written: ModelEntry = msgspec.structs.replace(described, sha256=hashlib.sha256(data).hexdigest())
    (folder / "manifest.toml").write_text(render_entry(written), "utf-8")
    return written
