"""What a subscriber reads: frames by their key, results as JSON without surprises."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.frames import Frame, FrameKey
from pipeline.geometry import Size
from pipeline.results import Origin, Result, ResultDetection, decode_result, encode_result
from tests.support.records import result

FIELDS = {
    *("schema", "camera", "epoch", "seq", "captured_at", "media_ms", "revision", "final", "origin", "reason"),
    *("frame", "detections", "timings_ms", "deadline_ms", "deadline_met", "models", "bytes_up", "tier"),
}
TIMINGS = {"wait", "gate", "edge", "encode", "network", "cloud_queue", "cloud_infer", "resolve", "total"}

number = st.floats(-1e6, 1e6)


def make_result(**changes: Any) -> Result:
    person = ResultDetection("person", 0.9, (1.0, 2.0, 3.0, 4.0), 7, "cloud")
    return result(42, **({"detections": [person]} | changes))


def test_the_published_form_is_what_the_design_says() -> None:
    told = json.loads(encode_result(make_result()))
    assert set(told) == FIELDS
    assert told["schema"] == 1
    assert told["detections"] == [
        {"label": "person", "score": 0.9, "box": [1.0, 2.0, 3.0, 4.0], "track_id": 7, "source": "cloud"}
    ]
    assert set(told["timings_ms"]) == TIMINGS


@given(st.text(max_size=20), st.sampled_from(Origin), st.tuples(number, number, number, number), st.none() | number)
def test_what_is_written_is_read_back(
    label: str, origin: Origin, box: tuple[float, float, float, float], media_ms: float | None
) -> None:
    label = label.encode("utf-8", "ignore").decode()
    one = ResultDetection(label, 0.5, box, None, "track")
    given_result = make_result(origin=origin.value, detections=[one], media_ms=media_ms)
    assert decode_result(encode_result(given_result)) == given_result


def test_it_is_one_line_and_never_holds_nan() -> None:
    data = encode_result(make_result(reason="two\nlines", media_ms=float("nan")))
    assert b"\n" not in data
    assert json.loads(data)["media_ms"] is None


@pytest.mark.parametrize(
    ("change", "where"), [({"origin": "guessed"}, "origin"), ({"frame": None}, "frame"), ({"schema": 2}, "schema")]
)
def test_what_does_not_fit_is_refused_with_its_place(change: dict[str, object], where: str) -> None:
    told = json.loads(encode_result(make_result())) | change
    with pytest.raises(msgspec.ValidationError, match=where):
        decode_result(json.dumps(told))


def test_the_size_of_a_frame_is_that_of_its_own_picture() -> None:
    frame = Frame(FrameKey("c", 1, 0), np.zeros((3, 2, 3), np.uint8), 0.0, None)
    assert frame.size == Size(width=2, height=3)


def test_keys_order_frames_by_run_and_number() -> None:
    keys = [FrameKey("c", 1, 9), FrameKey("c", 2, 0), FrameKey("c", 1, 10)]
    assert sorted(keys) == [keys[0], keys[2], keys[1]]
