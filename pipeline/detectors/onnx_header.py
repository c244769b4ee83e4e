"""The first facts of an ONNX file, read without the onnx package and without loading the weights.

*Source* the protocol-buffer wire format and onnx.proto: ModelProto.ir_version is field 1, opset_import field 8 with
domain 1 and version 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
VERSION_TAG = 1 << 3 | VARINT
"""Every writer puts ir_version first; without it foreign bytes soon look like anything."""


@dataclass(frozen=True, slots=True)
class OnnxHeader:
    """Versions that a file asks for; ``opsets`` by domain, the standard one under ``ai.onnx``."""

    ir_version: int | None
    opsets: dict[str, int]


class NotOnnxError(ValueError):
    """The bytes are no complete ONNX model; the message is the reason."""


def read_header(data: bytes) -> OnnxHeader:
    """Read the header. Raises NotOnnxError for empty, foreign and truncated content."""
    if not data:
        raise NotOnnxError("it is empty (0 bytes)")
    start = data[:64].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise NotOnnxError("it is a web page, not a model")
    if start.startswith(b"version https://git-lfs"):
        raise NotOnnxError("it is a Git LFS pointer, not the model itself")
    if data[0] != VERSION_TAG:
        raise NotOnnxError("it is not an ONNX file")
    ir_version: int | None = None
    opsets: dict[str, int] = {}
    for field, value in _fields(data):
        if field == 1 and isinstance(value, int):
            ir_version = value
        elif field == 8 and isinstance(value, bytes):
            parts = dict(_fields(value))
            domain, version = parts.get(1, b""), parts.get(2)
            if isinstance(version, int) and isinstance(domain, bytes):
                opsets[domain.decode("utf-8", "replace") or "ai.onnx"] = version
    if ir_version is None:
        raise NotOnnxError("it is not an ONNX file")
    return OnnxHeader(ir_version, opsets)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        field, kind = tag >> 3, tag & 7
        value: int | bytes = b""
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind == LENGTH:
            length, at = _varint(data, at)
            # The graph, field 7, holds the weights: it is passed over, not copied.
            value = b"" if field == 7 else data[at : at + length]
            at += length
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise NotOnnxError("it is not an ONNX file")
        if at > len(data):
            raise NotOnnxError(f"it is cut off or damaged ({len(data)} bytes)")
        yield field, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise NotOnnxError("it is not an ONNX file, or it is cut off")
