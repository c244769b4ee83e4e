"""What arrives is checked before anything is spent on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_worker.intake import Ignored, Rejected, address_of, read_request
from cloud_worker.jobs import UNKNOWN_INPUT, Job, ReplyAddress
from cloud_worker.settings import ServedModel, WorkerSettings
from pipeline.geometry import Size
from pipeline.transport.base import Message
from pipeline.wire.codec import encode_request
from pipeline.wire.messages import Refusal
from tests.support.detectors import grey_picture, jpeg_of
from tests.support.workers import make_request

SETTINGS = WorkerSettings(models=(ServedModel("m"),), worker="w", reply_margin_ms=10, pixel_limit=100 * 100)
ADDRESS = ReplyAddress("foveate/v1/rep/a1", b"c")


def message(payload: bytes = b"", **changes: object) -> Message:
    fields: dict[str, object] = {"response_topic": "foveate/v1/rep/a1", "correlation": b"c"}
    return Message("foveate/v1/req/cloud/m", payload, **(fields | changes))  # type: ignore[arg-type]  # by name


def arrive(payload: bytes, settings: WorkerSettings = SETTINGS) -> Job | Rejected:
    return read_request(message(payload), ADDRESS, settings, {"m": UNKNOWN_INPUT.of}, now_s=100.0)


def test_the_address_is_the_response_topic_with_the_correlation_and_the_trace() -> None:
    traced = message(properties={"traceparent": "00-ab-cd-01", "else": "x"})
    assert address_of(traced) == ReplyAddress("foveate/v1/rep/a1", b"c", "00-ab-cd-01")


def test_a_retained_message_is_ignored() -> None:
    assert address_of(message(retain=True)) is Ignored.RETAINED


@pytest.mark.parametrize(
    "topic", [None, "", "foveate/v1/rep/", "foveate/v1/rep/#", "foveate/v1/rep/a/b", "foveate/v1/config/a1", "else"]
)
def test_only_the_reply_topic_of_an_agent_is_an_address(topic: str | None) -> None:
    assert address_of(message(response_topic=topic)) is Ignored.NO_ADDRESS


@pytest.mark.parametrize("correlation", [None, b""])
def test_a_message_without_correlation_data_has_no_address(correlation: bytes | None) -> None:
    assert address_of(message(correlation=correlation)) is Ignored.NO_ADDRESS


def test_the_deadline_is_the_arrival_plus_the_budget_less_the_way_back() -> None:
    arrived = arrive(encode_request(make_request(1, budget_ms=110.0), jpeg_of(grey_picture(80))))
    assert isinstance(arrived, Job)
    assert arrived.arrived_s == 100.0
    assert abs(arrived.deadline_s - 100.1) < 1e-9
    assert arrived.size == Size(64, 64)


def test_a_payload_over_the_limit_is_too_large() -> None:
    small = WorkerSettings(models=(ServedModel("m"),), worker="w", request_limit_bytes=100)
    arrived = arrive(encode_request(make_request(1), jpeg_of(grey_picture(80))), small)
    assert isinstance(arrived, Rejected)
    assert arrived.refusal is Refusal.TOO_LARGE


def test_a_picture_over_the_pixel_limit_is_too_large_and_is_never_decoded() -> None:
    arrived = arrive(encode_request(make_request(1), jpeg_of(grey_picture(80, 101, 100))))
    assert isinstance(arrived, Rejected)
    assert arrived.refusal is Refusal.TOO_LARGE
    assert "101 x 100" in arrived.detail


def test_a_model_that_is_not_served_is_named_with_those_that_are() -> None:
    arrived = arrive(encode_request(make_request(1, model="n"), jpeg_of(grey_picture(80))))
    assert arrived == Rejected(
        make_request(1, model="n"), Refusal.UNKNOWN_MODEL, "model 'n' is not served here; served: m"
    )


def test_a_cut_jpeg_is_a_bad_payload() -> None:
    arrived = arrive(encode_request(make_request(1), jpeg_of(grey_picture(80)))[:-20])
    assert isinstance(arrived, Rejected)
    assert arrived.refusal is Refusal.BAD_PAYLOAD


def test_a_crop_outside_the_picture_is_a_bad_payload() -> None:
    sound = encode_request(make_request(1), jpeg_of(grey_picture(80, 64, 64)))
    smaller = jpeg_of(grey_picture(80, 64, 56))
    arrived = arrive(sound[: sound.index(b"\xff\xd8")] + smaller)
    assert isinstance(arrived, Rejected)
    assert arrived.refusal is Refusal.BAD_PAYLOAD


@given(st.binary(max_size=200))
def test_any_bytes_give_a_rejection_never_an_exception(payload: bytes) -> None:
    assert isinstance(arrive(payload), Rejected)
