"""Bytes on the wire."""

import math
from typing import Any

import cv2
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.wire.codec import (
    MAX_CANCELLED,
    MAX_CORRELATION_BYTES,
    MAX_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    BadPayload,
    decode_cancel,
    decode_echo,
    decode_reply,
    decode_request,
    decode_worker_state,
    encode_cancel,
    encode_echo,
    encode_reply,
    encode_request,
    encode_worker_state,
)
from pipeline.wire.jpeg import jpeg_size
from pipeline.wire.messages import (
    WIRE_VERSION,
    Cancel,
    Echo,
    Refusal,
    Reply,
    Request,
    WireCrop,
    WireDetection,
    WorkerModel,
    WorkerState,
)


def picture(width: int, height: int, *options: int) -> bytes:
    noise = np.random.default_rng(7).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return cv2.imencode(".jpg", noise, list(options))[1].tobytes()


JPEG = picture(64, 32)


def request(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "agent": "agent-1",
        "camera": "plaza",
        "epoch": 1,
        "seq": 41,
        "budget_ms": 120.5,
        "weight": 1.0,
        "kind": "mosaic",
        "frame_width": 768,
        "frame_height": 576,
        "crops": [WireCrop((0, 0, 32, 32), (100, 50, 40, 40)), WireCrop((32, 0, 32, 32), (700, 500, 68, 76))],
        "model": "nanodet-g",
        "min_score": 0.3,
    }
    return Request(**{**fields, **changes})


def reply(**changes: Any) -> Reply:
    fields: dict[str, Any] = {
        "agent": "agent-1",
        "camera": "plaza",
        "epoch": 1,
        "seq": 41,
        "worker": "w1",
        "model": "nanodet-g",
        "model_version": "1",
        "detections": [[WireDetection("person", 0.9, (1.0, 2.0, 3.0, 4.5))], []],
        "queue_ms": 1.0,
        "batch_wait_ms": 0.5,
        "infer_ms": 20.0,
        "total_ms": 22.0,
        "batch_size": 2,
    }
    return Reply(**{**fields, **changes})


def raw(header: Any, body: bytes = JPEG, version: int = WIRE_VERSION) -> bytes:
    """A payload that no check of the sender has seen."""
    packed = msgspec.msgpack.encode(header)
    return bytes((version,)) + len(packed).to_bytes(4, "big") + packed + body


def refused(payload: bytes) -> BadPayload:
    outcome = decode_request(payload)
    assert isinstance(outcome, BadPayload)
    return outcome


def test_a_request_comes_back_with_its_picture() -> None:
    outcome = decode_request(encode_request(request(), JPEG))
    assert not isinstance(outcome, BadPayload)
    assert outcome[0] == request()
    assert bytes(outcome[1]) == JPEG


def test_the_layout_is_version_length_header_picture() -> None:
    payload = encode_request(request(), JPEG)
    length = int.from_bytes(payload[1:5], "big")
    assert payload[0] == WIRE_VERSION
    assert msgspec.msgpack.decode(payload[5 : 5 + length])["camera"] == "plaza"
    assert payload[5 + length :] == JPEG


def test_a_reply_comes_back() -> None:
    for sent in (reply(), reply(detections=[], refused=Refusal.QUEUE_FULL, detail="8 wait")):
        assert decode_reply(encode_reply(sent)) == sent


def test_a_worker_state_comes_back_as_json() -> None:
    state = WorkerState(worker="w1", online=True, models=[WorkerModel(name="m", version="1", label_set="0123456789ab")])
    assert decode_worker_state(encode_worker_state(state)) == state
    assert encode_worker_state(state).startswith(b"{")


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    for payload in (data, bytes((WIRE_VERSION,)) + data, raw(request())[:5] + data, raw(msgspec.Raw(data))):
        assert isinstance(decode_request(payload), BadPayload)
        assert isinstance(decode_reply(payload), BadPayload)
    assert isinstance(decode_worker_state(data), BadPayload)
    size = jpeg_size(data)
    assert size is None or min(size) > 0


@given(st.data())
def test_a_request_damaged_anywhere_is_a_request_or_a_refusal(data: st.DataObject) -> None:
    payload = bytearray(encode_request(request(), JPEG))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    outcome = decode_request(bytes(payload))
    if isinstance(outcome, BadPayload):
        assert outcome.reason
    else:
        encode_request(outcome[0], bytes(outcome[1]))  # whatever is accepted is fit to be sent


@given(st.integers(0, len(encode_request(request(), JPEG)) - 1))
def test_a_request_that_was_cut_short_is_refused(length: int) -> None:
    assert refused(encode_request(request(), JPEG)[:length]).refusal is Refusal.BAD_PAYLOAD


BAD_REQUESTS = [
    {"agent": ""},
    {"camera": "x" * 257},
    {"camera": "ü" * 129},
    {"model": ""},
    {"epoch": -1},
    {"seq": -1},
    {"budget_ms": 0.0},
    {"budget_ms": -5.0},
    {"budget_ms": math.nan},
    {"budget_ms": math.inf},
    {"weight": math.nan},
    {"weight": math.inf},
    {"weight": -1.0},
    {"min_score": math.nan},
    {"min_score": 1.01},
    {"frame_width": 0},
    {"frame_height": 65_536},
    {"crops": []},
    {"crops": [WireCrop((0, 0, 8, 8), (0, 0, 8, 8))] * 257},
    {"kind": "frame"},
    {"crops": [WireCrop((0, 0, 8, 8), (-1, 0, 8, 8))]},
    {"crops": [WireCrop((0, 0, 8, 8), (761, 0, 8, 8))]},
    {"crops": [WireCrop((0, 0, 8, 8), (0, 0, 0, 8))]},
    {"crops": [WireCrop((57, 0, 8, 8), (0, 0, 8, 8))]},
    {"crops": [WireCrop((0, 25, 8, 8), (0, 0, 8, 8))]},
    {"crops": [WireCrop((0, 0, 8, -8), (0, 0, 8, 8))]},
]


@pytest.mark.parametrize("changes", BAD_REQUESTS, ids=str)
def test_a_request_that_makes_no_sense_is_neither_sent_nor_accepted(changes: dict[str, Any]) -> None:
    bad = request(**changes)
    with pytest.raises(ValueError, match=r"."):
        encode_request(bad, JPEG)
    outcome = refused(raw(bad))
    assert outcome.refusal is Refusal.BAD_PAYLOAD
    # Compared by key, for NaN is unequal to itself: the sender can be answered.
    assert outcome.request is not None
    assert outcome.request.key == bad.key


BAD_REPLIES = [
    {"agent": ""},
    {"worker": "x" * 257},
    {"detail": "x" * 1025},
    {"seq": -1},
    {"batch_size": -1},
    {"infer_ms": math.nan},
    {"total_ms": math.inf},
    {"queue_ms": -0.1},
    {"detections": [[]] * 257},
    {"detections": [[WireDetection("a", 0.5, (0, 0, 1, 1))] * 1001]},
    {"detections": [[WireDetection("", 0.5, (0, 0, 1, 1))]]},
    {"detections": [[WireDetection("a", math.nan, (0, 0, 1, 1))]]},
    {"detections": [[WireDetection("a", 658.0, (0, 0, 1, 1))]]},
    {"detections": [[WireDetection("a", 0.5, (0, 0, math.nan, 1))]]},
    {"detections": [[WireDetection("a", 0.5, (0, 0, math.inf, 1))]]},
    {"detections": [[WireDetection("a", 0.5, (2, 0, 1, 1))]]},
]


@pytest.mark.parametrize("changes", BAD_REPLIES, ids=lambda changes: str(changes)[:40])
def test_a_reply_that_makes_no_sense_is_neither_sent_nor_accepted(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode_reply(reply(**changes))
    assert isinstance(decode_reply(raw(reply(**changes), b"")), BadPayload)


def test_a_reply_with_bytes_after_it_is_refused() -> None:
    assert isinstance(decode_reply(raw(reply(), b"x")), BadPayload)


def test_another_wire_version_is_named() -> None:
    assert "version 2" in refused(raw(request(), version=2)).reason


def test_a_payload_over_the_limit_is_too_large_on_both_sides() -> None:
    huge = JPEG[:-2] + bytes(MAX_PAYLOAD_BYTES) + JPEG[-2:]
    assert refused(raw(request(), huge)).refusal is Refusal.TOO_LARGE
    with pytest.raises(ValueError, match="limit"):
        encode_request(request(), huge)


def test_a_header_that_claims_more_than_there_is_is_refused() -> None:
    for length in (2**32 - 1, MAX_HEADER_BYTES + 1, len(JPEG) + 1):
        assert "header" in refused(bytes((WIRE_VERSION,)) + length.to_bytes(4, "big") + JPEG).reason


@pytest.mark.parametrize("picture_bytes", [b"", b"x" * 100, JPEG[: len(JPEG) // 2], JPEG[:-2], JPEG[: len(JPEG) // 4]])
def test_a_picture_that_is_no_whole_jpeg_is_refused_with_its_request(picture_bytes: bytes) -> None:
    outcome = refused(raw(request(), picture_bytes))
    assert outcome.refusal is Refusal.BAD_PAYLOAD
    assert outcome.request == request()


def claim(jpeg: bytes, width: int, height: int) -> bytes:
    """A JPEG whose frame header claims another size."""
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + jpeg[at + 4 :]


def test_a_jpeg_that_claims_65500_by_65500_is_too_large_before_anybody_decodes_it() -> None:
    outcome = refused(raw(request(), claim(JPEG, 65_500, 65_500)))
    assert outcome.refusal is Refusal.TOO_LARGE
    assert "65500 x 65500" in outcome.reason


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b'{"worker":"w"}',
        b'{"worker":"","online":true}',
        b'{"worker":"w","online":true,"heartbeat_s":NaN}',
        b'{"worker":"w","online":true,"heartbeat_s":Infinity}',
        b'{"worker":"w","online":true,"heartbeat_s":1e999}',
        b'{"worker":"w","online":true,"heartbeat_s":0}',
        b'{"worker":"\xff","online":true}',
        b"[" * 5000 + b"]" * 5000,
        b'{"x":' * 5000 + b"1" + b"}" * 5000,
        b'{"worker":"' + b"w" * 300 + b'","online":true}',
        b" " * (MAX_HEADER_BYTES + 1),
    ],
    ids=range(14),
)
def test_a_worker_state_that_cannot_be_used_is_told(payload: bytes) -> None:
    outcome = decode_worker_state(payload)
    assert isinstance(outcome, BadPayload)
    assert outcome.reason


def test_a_header_nested_too_deep_is_refused() -> None:
    assert isinstance(decode_request(raw(msgspec.Raw(b"\x91" * 5000 + b"\x00"))), BadPayload)
    assert isinstance(decode_request(raw(msgspec.Raw(b"\x81\xa1x" + b"\x91" * 100_000 + b"\x00"))), BadPayload)


@given(st.integers(0, 2**63 - 1), st.booleans())
def test_a_probe_comes_back_as_it_was_and_is_small(number: int, give_up: bool) -> None:
    payload = encode_echo(Echo(echo=number, give_up=give_up))
    assert decode_echo(payload) == Echo(echo=number, give_up=give_up)
    assert len(payload) <= 100


def test_a_worker_that_does_not_know_probes_refuses_one_as_a_bad_request() -> None:
    found = decode_request(encode_echo(Echo(echo=1)))
    assert isinstance(found, BadPayload)
    assert found.refusal is Refusal.BAD_PAYLOAD


@given(st.binary(max_size=600))
def test_what_is_no_probe_is_never_taken_for_one(payload: bytes) -> None:
    assert decode_echo(payload) is None
    assert decode_echo(payload[:1] + (0).to_bytes(4, "big") + payload) is None


def test_a_request_is_never_taken_for_a_probe() -> None:
    assert decode_echo(encode_request(request(), JPEG)) is None
    negative = encode_echo(Echo(echo=-1))
    assert decode_echo(negative) is None
    assert decode_echo(encode_echo(Echo(echo=1)) + b"x") is None


@given(st.lists(st.binary(min_size=1, max_size=MAX_CORRELATION_BYTES), min_size=1, max_size=MAX_CANCELLED))
def test_a_cancellation_comes_back_as_it_was(correlations: list[bytes]) -> None:
    assert decode_cancel(encode_cancel(Cancel(correlations=correlations))) == Cancel(correlations=correlations)


@pytest.mark.parametrize(
    "correlations",
    [[], [b""], [b"x" * (MAX_CORRELATION_BYTES + 1)], [b"1"] * (MAX_CANCELLED + 1)],
    ids=["of nothing", "of an empty name", "of a long name", "of too many"],
)
def test_a_cancellation_that_is_not_bounded_is_neither_sent_nor_accepted(correlations: list[bytes]) -> None:
    with pytest.raises(ValueError, match="must"):
        encode_cancel(Cancel(correlations=correlations))
    assert isinstance(decode_cancel(raw({"correlations": correlations}, b"")), BadPayload)


@given(st.binary(max_size=600))
def test_what_is_no_cancellation_is_refused(payload: bytes) -> None:
    assert isinstance(decode_cancel(payload[:1] + (0).to_bytes(4, "big") + payload), BadPayload)
    assert isinstance(decode_cancel(encode_cancel(Cancel(correlations=[b"1"])) + b"x"), BadPayload)
    assert isinstance(decode_cancel(encode_echo(Echo(echo=1))), BadPayload)
