"""Static quantisation of a detector to 8 bits: weights and activations of its convolutions, per channel.

The ``onnx`` package is needed here alone; it belongs to the development environment.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foveate.models.clips import count_frames, sampled_frames
from pipeline.detectors.contract import HeightWidth, InputContract
from pipeline.detectors.onnx import tensor_shape
from pipeline.detectors.preprocess import check_image, fill, place
from pipeline.errors import ModelError

MISSING_ONNX = "Quantising needs the package onnx, which is part of the development environment: run `make setup`."


def calibration_inputs(
    clips: Sequence[Path], contract: InputContract, size_px: HeightWidth, frames_per_clip: int
) -> Iterator[dict[str, NDArray[Any]]]:
    """Input tensors of about ``frames_per_clip`` frames of each clip, evenly spread."""
    for clip in clips:
        every = max(1, count_frames(clip) // frames_per_clip)
        for _, image in sampled_frames(clip, every):
            tensor = np.empty(tensor_shape(contract, 1, size_px), dtype=contract.dtype)
            fill(image, place(check_image(image), contract, size_px), contract, tensor[0])
            yield {contract.name: tensor}


def quantize_file(source: Path, target: Path, inputs: Iterator[dict[str, NDArray[Any]]]) -> None:
    """Write the 8-bit twin of an ONNX file: QDQ, unsigned activations, signed weights per channel, MinMax.

    Convolutions whose result reaches an output without another convolution stay in float: one range cannot hold class
    logits and box logits both. Raises ModelError where the package onnx is missing.
    """
    try:
        import onnx
        from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    except ImportError as error:
        raise ModelError(MISSING_ONNX) from error

    model = onnx.load(source)
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"  # a node is kept in float by its name
    kept = last_convolutions(model)
    widen_weights(model, kept)
    # Says that constants are folded and nothing is left to fuse; onnxruntime warns without it. What the file says of
    # itself, its class names among it, stays.
    said = {item.key: item.value for item in model.metadata_props}
    onnx.helper.set_model_props(model, said | {"onnx.quant.pre_process": "onnxruntime.quant"})
    with tempfile.TemporaryDirectory() as folder:
        widened = Path(folder) / "float32.onnx"
        onnx.save(model, widened)
        quantize_static(
            widened,
            target,
            _Reader(inputs),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            nodes_to_exclude=sorted(kept),
        )


def last_convolutions(model: Any) -> set[str]:
    """Names of the Conv nodes behind which no other Conv follows on the way to an output."""
    makers = {name: node for node in model.graph.node for name in node.output}
    waiting = [output.name for output in model.graph.output]
    seen: set[str] = set()
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if node.op_type == "Conv":
            found.add(node.name)
        else:
            waiting.extend(node.input)
    return found


def widen_weights(model: Any, except_for: set[str]) -> None:
    """Replace float16 weights behind a Cast by float32 ones, for every Conv but the named ones."""
    from onnx import numpy_helper

    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    read = {
        name for node in graph.node if node.op_type == "Conv" and node.name not in except_for for name in node.input
    }
    for cast in [node for node in graph.node if node.op_type == "Cast" and node.input[0] in tensors]:
        if cast.output[0] in read:
            tensor = tensors[cast.input[0]]
            wide = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(wide, cast.output[0]))
            graph.node.remove(cast)


class _Reader:
    """What onnxruntime's calibration asks for: the next input, or None at the end."""

    def __init__(self, inputs: Iterator[dict[str, NDArray[Any]]]) -> None:
        self._inputs = inputs

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._inputs, None)
