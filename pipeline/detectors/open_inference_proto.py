"""Requests and replies of the Open Inference Protocol, version 2, as gRPC carries them; tensors in binary.

*Source* kserve/open-inference-protocol, "open_inference_grpc.proto": the messages below have the fields that are used
here. They are built when this is imported, because generated code is bound to one version of protobuf.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from numpy.typing import NDArray

from pipeline.detectors.open_inference_codec import DATATYPES, InferenceServerError, datatype_of

SERVICE = "inference.GRPCInferenceService"

_SCALARS = {
    "string": FieldDescriptorProto.TYPE_STRING, "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL, "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64, "uint32": FieldDescriptorProto.TYPE_UINT32,
    "float": FieldDescriptorProto.TYPE_FLOAT, "double": FieldDescriptorProto.TYPE_DOUBLE,
}  # fmt: skip
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Model": {"name": (1, "string"), "version": (2, "string")},
    "Ready": {"ready": (1, "bool")},
    "Contents": {
        "int_contents": (2, "int32*"), "int64_contents": (3, "int64*"), "uint_contents": (4, "uint32*"),
        "fp32_contents": (6, "float*"), "fp64_contents": (7, "double*"),
    },
    "Tensor": {"name": (1, "string"), "datatype": (2, "string"), "shape": (3, "int64*"), "contents": (5, "Contents")},
    "Wanted": {"name": (1, "string")},
    "Description": {"name": (1, "string"), "inputs": (4, "Tensor*"), "outputs": (5, "Tensor*")},
    "Request": {
        "model_name": (1, "string"), "model_version": (2, "string"), "inputs": (5, "Tensor*"),
        "outputs": (6, "Wanted*"), "raw_input_contents": (7, "bytes*"),
    },
    "Reply": {
        "model_name": (1, "string"), "model_version": (2, "string"), "outputs": (5, "Tensor*"),
        "raw_output_contents": (6, "bytes*"),
    },
}  # fmt: skip
"""Fields by message: number and type, with a star where repeated. Only the numbers are seen on the wire."""
_CONTENTS = {
    "FP32": "fp32_contents", "FP64": "fp64_contents", "UINT8": "uint_contents", "INT32": "int_contents",
    "INT64": "int64_contents",
}  # fmt: skip


def _built() -> Mapping[str, Any]:
    file = FileDescriptorProto(name="open_inference.proto", package="inference", syntax="proto3")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            field = described.field.add(name=name, number=number)
            field.label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            field.type = _SCALARS.get(kind, field.TYPE_MESSAGE)
            if kind not in _SCALARS:
                field.type_name = f".inference.{kind}"
    pool = DescriptorPool()  # of our own: another library may have brought the protocol's messages in full
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"inference.{name}")) for name in _MESSAGES}


MESSAGES = _built()
"""Classes by name."""


def encode_model(name: str, version: str) -> bytes:
    """A question about a model, whether it is ready or what it takes; of the newest version where that is empty."""
    asked: bytes = MESSAGES["Model"](name=name, version=version).SerializeToString()
    return asked


def decode(message: str, data: bytes) -> Any:
    """A message of ``MESSAGES``. Raises InferenceServerError."""
    try:
        return MESSAGES[message].FromString(data)
    except DecodeError as error:
        raise InferenceServerError(f"the reply is none of the Open Inference Protocol ({data[:40]!r})") from error


def encode_infer(model: tuple[str, str], output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> bytes:
    """A request to a model of this name and version."""
    request = MESSAGES["Request"](model_name=model[0], model_version=model[1])
    for name, array in feeds.items():
        request.inputs.add(name=name, datatype=datatype_of(array), shape=array.shape)
        request.raw_input_contents.append(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    for name in output_names:
        request.outputs.add(name=name)
    encoded: bytes = request.SerializeToString()
    return encoded


def decode_infer(data: bytes, output_names: Sequence[str]) -> tuple[list[NDArray[Any]], str]:
    """The outputs in the order asked for, and the version of the model. Raises InferenceServerError."""
    reply = decode("Reply", data)
    pieces = reply.raw_output_contents or [None] * len(reply.outputs)
    try:
        found = {output.name: _array(output, raw) for output, raw in zip(reply.outputs, pieces, strict=True)}
        return [found[name] for name in output_names], reply.model_version
    except (KeyError, ValueError) as error:
        raise InferenceServerError(
            f"the reply has not the outputs asked for ({type(error).__name__}: {error})"
        ) from error


def _array(output: Any, raw: bytes | None) -> NDArray[Any]:
    dtype, shape = DATATYPES[output.datatype][1], tuple(output.shape)
    if raw is None:
        return np.array(getattr(output.contents, _CONTENTS[output.datatype]), dtype).reshape(shape)
    if any(side < 0 for side in shape) or len(raw) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"{len(raw)} bytes for shape {shape} of {dtype}")
    return np.frombuffer(raw, dtype).reshape(shape)
