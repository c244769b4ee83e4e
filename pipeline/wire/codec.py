"""Bytes on the wire: one version byte, the header's length (4 bytes, big-endian), a MessagePack header, then the JPEG.

The length is there because msgspec refuses trailing bytes. Whatever arrives, decoding returns a value and raises
nothing: a message or a ``BadPayload`` with its reason.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from pipeline.wire.jpeg import jpeg_size
from pipeline.wire.messages import (
    WIRE_VERSION,
    Cancel,
    Echo,
    Refusal,
    Reply,
    Request,
    WireDetection,
    WorkerState,
)

MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
MAX_HEADER_BYTES = 256 * 1024
MAX_TEXT_BYTES = 256
MAX_CROPS = 256
MAX_DETECTIONS_PER_CROP = 1000
MAX_SIDE_PX = 65_535
MAX_PICTURE_PX = 7680 * 4320
MAX_BUDGET_MS = 3_600_000.0
MOST_ECHO_BYTES = 512
MAX_CANCELLED = 64
MAX_CORRELATION_BYTES = 256
_PREFIX_BYTES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BadPayload:
    """Why a payload is not used. ``request`` is its header where that could be read, so that it can be answered."""

    refusal: Refusal
    reason: str
    request: Request | None = None


def encode_request(request: Request, jpeg: bytes) -> bytes:
    """Pack a request and its picture. Raises ValueError where the receiver would refuse it."""
    fault = _request_fault(request) or _picture_fault(request, jpeg)
    if fault:
        raise ValueError(fault.reason)
    payload = _pack(request, jpeg)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a request of {len(payload)} bytes is over the limit of {MAX_PAYLOAD_BYTES}")
    return payload


def decode_request(payload: bytes) -> tuple[Request, memoryview] | BadPayload:
    """Unpack a request and a view of its JPEG, after checking everything that can be checked before decoding it."""
    parts = _split(payload)
    if isinstance(parts, BadPayload):
        return parts
    header, jpeg = parts
    request = _decoded(_REQUEST.decode, header)
    if isinstance(request, BadPayload):
        return request
    return _request_fault(request) or _picture_fault(request, jpeg) or (request, jpeg)


def encode_echo(echo: Echo) -> bytes:
    """Pack a probe. A worker that does not know probes takes it for a request and refuses it, at once too."""
    return _pack(echo, b"")


def decode_echo(payload: bytes) -> Echo | None:
    """Unpack a probe; None where the payload is none, or not sound: then ``decode_request`` says what is wrong."""
    if len(payload) > MOST_ECHO_BYTES:
        return None  # nor is any picture so small
    parts = _split(payload)
    if isinstance(parts, BadPayload) or parts[1]:
        return None
    echo = _decoded(_ECHO.decode, parts[0])
    return None if isinstance(echo, BadPayload) or echo.echo < 0 else echo


def encode_cancel(cancel: Cancel) -> bytes:
    """Pack a cancellation. Raises ValueError where the receiver would refuse it."""
    fault = _cancel_fault(cancel)
    if fault:
        raise ValueError(fault)
    return _pack(cancel, b"")


def decode_cancel(payload: bytes) -> Cancel | BadPayload:
    """Unpack a cancellation. Whose requests they are is what the topic says."""
    parts = _split(payload)
    if isinstance(parts, BadPayload):
        return parts
    header, rest = parts
    if rest:
        return _bad(f"{len(rest)} bytes after the header of a cancellation")
    cancel = _decoded(_CANCEL.decode, header)
    if isinstance(cancel, BadPayload):
        return cancel
    fault = _cancel_fault(cancel)
    return _bad(fault) if fault else cancel


def encode_reply(reply: Reply) -> bytes:
    """Pack a reply. Raises ValueError where the receiver would refuse it."""
    fault = _reply_fault(reply)
    if fault:
        raise ValueError(fault)
    return _pack(reply, b"")


def decode_reply(payload: bytes) -> Reply | BadPayload:
    """Unpack a reply. That it has as many crops as the request is for the requester to check."""
    parts = _split(payload)
    if isinstance(parts, BadPayload):
        return parts
    header, rest = parts
    if rest:
        return _bad(f"{len(rest)} bytes after the header of a reply")
    reply = _decoded(_REPLY.decode, header)
    if isinstance(reply, BadPayload):
        return reply
    fault = _reply_fault(reply)
    return _bad(fault) if fault else reply


def encode_worker_state(state: WorkerState) -> bytes:
    """The state as one line of JSON."""
    return msgspec.json.encode(state)


def decode_worker_state(payload: bytes) -> WorkerState | BadPayload:
    """Parse a worker's announcement."""
    if len(payload) > MAX_HEADER_BYTES:
        return BadPayload(Refusal.TOO_LARGE, f"{len(payload)} bytes are over the limit of {MAX_HEADER_BYTES}")
    state = _decoded(_WORKER_STATE.decode, payload)
    if isinstance(state, BadPayload):
        return state
    if not state.worker or not _short(state.worker):
        return _bad("the name of a worker must have 1 to 256 bytes")
    if not math.isfinite(state.heartbeat_s) or state.heartbeat_s <= 0:
        return _bad(f"heartbeat_s is {state.heartbeat_s}, must be above 0")
    return state


def _pack(header: Request | Echo | Cancel | Reply, body: bytes) -> bytes:
    packed = msgspec.msgpack.encode(header)
    return b"".join((bytes((WIRE_VERSION,)), len(packed).to_bytes(4, "big"), packed, body))


def _split(payload: bytes) -> tuple[memoryview, memoryview] | BadPayload:
    if len(payload) > MAX_PAYLOAD_BYTES:
        return BadPayload(Refusal.TOO_LARGE, f"{len(payload)} bytes are over the limit of {MAX_PAYLOAD_BYTES}")
    if len(payload) < _PREFIX_BYTES:
        return _bad(f"{len(payload)} bytes are too few for a header")
    if payload[0] != WIRE_VERSION:
        return _bad(f"wire version {payload[0]}, this side speaks {WIRE_VERSION}")
    length = int.from_bytes(payload[1:_PREFIX_BYTES], "big")
    if length > MAX_HEADER_BYTES or length > len(payload) - _PREFIX_BYTES:
        return _bad(f"a header of {length} bytes in a payload of {len(payload)}")
    view = memoryview(payload)
    return view[_PREFIX_BYTES : _PREFIX_BYTES + length], view[_PREFIX_BYTES + length :]


def _decoded(decode: Callable[[bytes | memoryview], T], data: bytes | memoryview) -> T | BadPayload:
    try:
        return decode(data)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
        return _bad(str(error)[:200])


def _bad(reason: str, request: Request | None = None) -> BadPayload:
    return BadPayload(Refusal.BAD_PAYLOAD, reason, request)


def _request_fault(request: Request) -> BadPayload | None:
    reason = _request_reason(request)
    return _bad(reason, request) if reason else None


def _request_reason(request: Request) -> str:
    names = {"agent": request.agent, "camera": request.camera, "model": request.model}
    for what, name in names.items():
        if not name or not _short(name):
            return f"{what} must have 1 to {MAX_TEXT_BYTES} bytes"
    if request.epoch < 0 or request.seq < 0:
        return f"epoch {request.epoch} and seq {request.seq} must not be negative"
    if not 0 < request.budget_ms <= MAX_BUDGET_MS:  # false for NaN too
        return f"budget_ms is {request.budget_ms}, must be above 0 and at most {MAX_BUDGET_MS:.0f}"
    if not 0 <= request.weight < math.inf:
        return f"weight is {request.weight}, must be 0 or more"
    if not 0 <= request.min_score <= 1:
        return f"min_score is {request.min_score}, must be 0 to 1"
    return _crops_reason(request)


def _crops_reason(request: Request) -> str:
    if not (0 < request.frame_width <= MAX_SIDE_PX and 0 < request.frame_height <= MAX_SIDE_PX):
        return f"a frame of {request.frame_width} x {request.frame_height} pixels"
    if not 1 <= len(request.crops) <= MAX_CROPS:
        return f"{len(request.crops)} crops, must be 1 to {MAX_CROPS}"
    if request.kind == "frame" and len(request.crops) != 1:
        return f"a whole frame with {len(request.crops)} crops"
    for crop in request.crops:
        if not _inside(crop.region, request.frame_width, request.frame_height):
            return f"region {crop.region} outside the frame of {request.frame_width} x {request.frame_height}"
    return ""


def _picture_fault(request: Request, jpeg: bytes | memoryview) -> BadPayload | None:
    size = jpeg_size(jpeg)
    if size is None:
        return _bad("the picture is not a whole JPEG", request)
    width, height = size
    if width * height > MAX_PICTURE_PX:
        reason = f"a picture of {width} x {height} is over the limit of {MAX_PICTURE_PX} pixels"
        return BadPayload(Refusal.TOO_LARGE, reason, request)
    for crop in request.crops:
        if not _inside(crop.placed, width, height):
            return _bad(f"crop {crop.placed} outside the picture of {width} x {height}", request)
    return None


def _cancel_fault(cancel: Cancel) -> str:
    if not 1 <= len(cancel.correlations) <= MAX_CANCELLED:
        return f"{len(cancel.correlations)} requests, must be 1 to {MAX_CANCELLED}"
    if not all(0 < len(each) <= MAX_CORRELATION_BYTES for each in cancel.correlations):
        return f"correlation data must have 1 to {MAX_CORRELATION_BYTES} bytes"
    return ""


def _reply_fault(reply: Reply) -> str:
    if not reply.agent or not reply.camera:
        return "a reply without agent or camera"
    texts = (reply.agent, reply.camera, reply.worker, reply.model, reply.model_version)
    if not all(_short(text) for text in texts) or len(reply.detail) > 4 * MAX_TEXT_BYTES:
        return "a text is too long"
    if reply.epoch < 0 or reply.seq < 0 or reply.batch_size < 0:
        return "a negative epoch, seq or batch_size"
    durations_ms = (reply.queue_ms, reply.batch_wait_ms, reply.infer_ms, reply.total_ms)
    if not all(0 <= duration < math.inf for duration in durations_ms):
        return f"durations {durations_ms} must be finite and not negative"
    if len(reply.detections) > MAX_CROPS:
        return f"{len(reply.detections)} crops are over the limit of {MAX_CROPS}"
    for crop in reply.detections:
        fault = _detections_fault(crop)
        if fault:
            return fault
    return ""


def _detections_fault(detections: list[WireDetection]) -> str:
    if len(detections) > MAX_DETECTIONS_PER_CROP:
        return f"{len(detections)} detections in a crop are over the limit of {MAX_DETECTIONS_PER_CROP}"
    for found in detections:
        if not found.label or not _short(found.label):
            return f"a label must have 1 to {MAX_TEXT_BYTES} bytes"
        if not 0 <= found.score <= 1:
            return f"score {found.score} of {found.label}, must be 0 to 1"
        x1, y1, x2, y2 = found.box
        if not _finite(found.box) or x2 < x1 or y2 < y1:
            return f"box {found.box} of {found.label}"
    return ""


def _inside(rect: tuple[int, int, int, int], width: int, height: int) -> bool:
    x, y, w, h = rect
    return x >= 0 and y >= 0 and w > 0 and h > 0 and x + w <= width and y + h <= height


def _finite(numbers: Iterable[float]) -> bool:
    return all(math.isfinite(number) for number in numbers)


def _short(text: str) -> bool:
    # Surrogates cannot come from the wire; len() bounds the work on our own side.
    return len(text) <= MAX_TEXT_BYTES and len(text.encode("utf-8", "replace")) <= MAX_TEXT_BYTES


_REQUEST = msgspec.msgpack.Decoder(Request)
_ECHO = msgspec.msgpack.Decoder(Echo)
_CANCEL = msgspec.msgpack.Decoder(Cancel)
_REPLY = msgspec.msgpack.Decoder(Reply)
_WORKER_STATE = msgspec.json.Decoder(WorkerState)
