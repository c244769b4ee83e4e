"""Inference requests and replies of the Open Inference Protocol, version 2, as bytes.

*Source* kserve/open-inference-protocol, "inference_rest.md"; tensors in binary as in Triton's extension
"binary_tensor_data", else as JSON numbers.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATATYPES: dict[str, tuple[str, np.dtype[Any]]] = {
    "FP32": ("tensor(float)", np.dtype("<f4")),
    "FP16": ("tensor(float16)", np.dtype("<f2")),
    "FP64": ("tensor(double)", np.dtype("<f8")),
    "UINT8": ("tensor(uint8)", np.dtype("u1")),
    "INT32": ("tensor(int32)", np.dtype("<i4")),
    "INT64": ("tensor(int64)", np.dtype("<i8")),
}
"""The protocol's types, with onnxruntime's names and numpy's."""
_BY_DTYPE = {dtype: name for name, (_, dtype) in DATATYPES.items()}

HEADER_LENGTH = "Inference-Header-Content-Length"
"""The HTTP header that tells where the JSON ends and the binary tensors begin."""


class InferenceServerError(RuntimeError):
    """The server did not do what it was asked; one sentence."""


def datatype_of(array: NDArray[Any]) -> str:
    """The protocol's name for an array's type. Raises KeyError."""
    return _BY_DTYPE[array.dtype.newbyteorder("<")]


def encode_infer(
    output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]], *, binary: bool
) -> tuple[bytes, dict[str, str]]:
    """The body and headers of an inference request. Raises InferenceServerError for a type that JSON cannot carry."""
    inputs, parts = [], []
    for name, array in feeds.items():
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        described: dict[str, Any] = {"name": name, "shape": list(array.shape), "datatype": datatype_of(array)}
        if binary:
            parts.append(array.tobytes())
            described["parameters"] = {"binary_data_size": array.nbytes}
        elif array.dtype == np.float16:
            raise InferenceServerError(f"input {name!r} is float16, which a server without binary tensors cannot take")
        else:
            described["data"] = array.ravel().tolist()
        inputs.append(described)
    outputs = [
        {"name": name, "parameters": {"binary_data": True}} if binary else {"name": name} for name in output_names
    ]
    header = json.dumps({"inputs": inputs, "outputs": outputs}).encode()
    if not binary:
        return header, {"Content-Type": "application/json"}
    kinds = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(header))}
    return b"".join((header, *parts)), kinds


def decode_infer(
    data: bytes, header_bytes: int | None, output_names: Sequence[str]
) -> tuple[list[NDArray[Any]], str | None]:
    """The outputs in the order asked for, and the version of the model. Raises InferenceServerError."""
    reply = json_object(data if header_bytes is None else data[:header_bytes])
    rest = memoryview(b"" if header_bytes is None else data[header_bytes:])
    found: dict[str, NDArray[Any]] = {}
    try:
        for output in reply["outputs"]:
            size_bytes = output.get("parameters", {}).get("binary_data_size")
            found[output["name"]] = _array(output, None if size_bytes is None else rest[:size_bytes])
            rest = rest[size_bytes or 0 :]
        return [found[name] for name in output_names], reply.get("model_version")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InferenceServerError(
            f"the reply has not the outputs asked for ({type(error).__name__}: {error})"
        ) from error


def _array(output: Mapping[str, Any], raw: memoryview | None) -> NDArray[Any]:
    dtype, shape = DATATYPES[output["datatype"]][1], tuple(output["shape"])
    if raw is None:
        return np.asarray(output["data"], dtype).reshape(shape)
    if len(raw) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"{len(raw)} bytes for shape {shape} of {dtype}")
    return np.frombuffer(raw, dtype).reshape(shape)


def json_object(data: bytes) -> dict[str, Any]:
    """A reply that is a JSON object. Raises InferenceServerError."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InferenceServerError(f"the reply is no JSON ({data[:60]!r})") from error
    if not isinstance(found, dict):
        raise InferenceServerError(f"the reply is no JSON object ({data[:60]!r})")
    return found
