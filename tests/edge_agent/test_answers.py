"""The published result says what became of the frame."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from edge_agent.answers import Stamp, build, revise
from edge_agent.resolve import FrameTimings, Pending, Phase
from pipeline.detections import Detections, Source
from pipeline.frames import FrameKey
from pipeline.geometry import Size
from pipeline.results import Origin, decode_result, encode_result

PENDING = Pending(
    key=FrameKey("hall", 3, 42),
    size=Size(768, 576),
    captured_at_s=100.0,
    scene_s=4.2,
    media_ms=4200.123,
    deadline_s=100.2,
    phase=Phase.SETTLED,
    origin=Origin.FUSED,
    reason="uncertain",
    ready_at_s=100.12,
    timings=FrameTimings(wait_ms=1.234, edge_ms=6.5, network_ms=30.0),
    bytes_up=8000,
    edge_model="small@1",
    cloud_model="large@2",
)
STAMP = Stamp(datetime(2026, 3, 1, 12, tzinfo=UTC), 100.125, 100.13, 200.0)

RESULT = build(PENDING, Detections.none(), STAMP)


def test_it_carries_the_key_the_origin_and_the_durations() -> None:
    result = build(PENDING, Detections.none(), STAMP)
    assert (result.camera, result.epoch, result.seq) == ("hall", 3, 42)
    assert (result.origin, result.reason, result.bytes_up) == ("fused", "uncertain", 8000)
    assert (result.frame.width, result.frame.height) == (768, 576)
    assert (result.media_ms, result.captured_at) == (4200.12, "2026-03-01T12:00:00.000Z")
    timings = result.timings_ms
    assert (timings.wait, timings.edge, timings.network, timings.gate) == (1.23, 6.5, 30.0, None)
    assert timings.total == pytest.approx(130)
    assert timings.resolve == pytest.approx(10)
    assert decode_result(encode_result(result)) == result


@pytest.mark.parametrize(("now_s", "met"), [(100.2, True), (100.201, False)])
def test_the_deadline_is_met_by_the_moment_of_the_answer(now_s: float, met: bool) -> None:
    assert build(PENDING, Detections.none(), replace(STAMP, now_s=now_s)).deadline_met is met


def test_a_carried_frame_names_no_edge_model() -> None:
    carried = build(replace(PENDING, origin=Origin.CARRIED, cloud_model=None), Detections.none(), STAMP)
    assert (carried.models.edge, carried.models.cloud) == (None, None)
    fused = build(PENDING, Detections.none(), STAMP)
    assert (fused.models.edge, fused.models.cloud) == ("small@1", "large@2")


def test_each_detection_is_told_with_its_track_and_its_source() -> None:
    found = Detections.concat(
        [
            Detections.of([[1.23, 2.34, 3.42, 4.56]], [0.98765], ["person"], Source.CLOUD, [7]),
            Detections.of([[5, 6, 7, 8]], [0.5], ["dog"], Source.TRACK),
        ]
    )
    first, second = build(PENDING, found, STAMP).detections
    assert (first.label, first.score, first.track_id, first.source) == ("person", 0.988, 7, "cloud")
    assert first.box == (1.2, 2.3, 3.4, 4.6)
    assert (second.track_id, second.source) == (None, "track")


def test_what_is_no_number_is_never_published() -> None:
    found = Detections.of([[0, 0, np.nan, 1], [0, 0, 1, 1], [0, 0, 1, np.inf]], [0.5, np.nan, 0.5], ["x"] * 3)
    assert build(PENDING, found, STAMP).detections == []


def test_a_revision_keeps_the_promise_of_the_first_result_and_its_time_of_capture() -> None:
    late = replace(STAMP, now_s=101.0, captured_at=STAMP.captured_at + timedelta(milliseconds=1))
    found = Detections.of([[1, 2, 3, 4]], [0.9], ["person"], Source.CLOUD, [7])
    revised = revise(RESULT, PENDING, found, late)
    assert revised is not None
    assert (revised.revision, revised.final, revised.deadline_met) == (1, True, True)
    assert revised.captured_at == RESULT.captured_at
    assert revised.timings_ms.total == pytest.approx(1000)
    again = revise(revised, PENDING, Detections.none(), late)
    assert again is not None
    assert again.revision == 2


def test_what_shows_nothing_else_is_no_revision() -> None:
    assert revise(RESULT, PENDING, Detections.none(), replace(STAMP, now_s=101.0)) is None
