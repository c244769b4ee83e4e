"""Detections of the sent picture go home to their crops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cloud_worker.jobs import Job, ReplyAddress
from cloud_worker.replies import Durations, ReplyWriter, per_crop
from pipeline.detections import Detections
from pipeline.geometry import Size
from pipeline.wire.codec import BadPayload, decode_reply
from pipeline.wire.messages import Refusal, Reply, WireCrop
from tests.support.workers import make_request

LEFT = WireCrop((0, 0, 100, 80), (0, 0, 200, 160))
RIGHT = WireCrop((104, 10, 60, 60), (300, 50, 60, 60))
ADDRESS = ReplyAddress("foveate/v1/rep/a1", b"c")


def boxes_per_crop(*boxes: list[float]) -> list[list[tuple[float, float, float, float]]]:
    found = Detections.of(list(boxes), [0.9] * len(boxes), ["person"] * len(boxes))
    return [[each.box for each in crop] for crop in per_crop(found, [LEFT, RIGHT], min_score=0.5)]


def test_a_detection_belongs_to_the_crop_that_holds_its_centre_and_is_in_its_pixels() -> None:
    assert boxes_per_crop([10, 20, 30, 60], [114, 20, 144, 60]) == [[(10, 20, 30, 60)], [(10, 10, 40, 50)]]


def test_a_box_over_the_edge_of_its_crop_is_cut_to_it() -> None:
    assert boxes_per_crop([80, -4, 106, 40]) == [[(80, 0, 100, 40)], []]


def test_a_detection_in_the_gap_is_dropped() -> None:
    assert boxes_per_crop([100.5, 20, 103.5, 40]) == [[], []]


def test_a_detection_across_the_gap_is_dropped() -> None:
    assert boxes_per_crop([50, 20, 146, 60]) == [[], []], "half of it is outside the crop of its centre"


@pytest.mark.parametrize("box", [[math.nan, 0, 10, 10], [10, 10, 10, 20], [20, 20, 10, 30], [0, 0, math.inf, 20]])
def test_a_box_that_is_none_is_dropped(box: list[float]) -> None:
    assert boxes_per_crop(box, [10, 20, 30, 60]) == [[(10, 20, 30, 60)], []]


def test_each_request_gets_the_scores_that_it_asked_for() -> None:
    found = Detections.of([[0, 0, 9, 9]] * 3, [0.9, 0.5, math.nan], ["a", "b", "c"])
    assert [each.label for each in per_crop(found, [LEFT], 0.4)[0]] == ["a", "b"]
    assert [each.label for each in per_crop(found, [LEFT], 0.6)[0]] == ["a"]


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(0, 12), st.just(4)), elements=st.floats(-300, 300, width=32)),
    st.lists(st.tuples(st.integers(0, 150), st.integers(0, 150), st.integers(1, 90), st.integers(1, 90)), max_size=6),
)
def test_every_box_sent_is_valid_inside_its_crop_and_none_is_sent_twice(
    boxes: np.ndarray[tuple[int, int], np.dtype[np.float32]], placed: list[tuple[int, int, int, int]]
) -> None:
    found = Detections.of(boxes, np.full(len(boxes), 0.9), [str(i) for i in range(len(boxes))])
    crops = [WireCrop(each, (0, 0, each[2], each[3])) for each in placed]
    result = per_crop(found, crops, 0.5)
    assert len(result) == len(crops)
    for crop, home in zip(crops, result, strict=True):
        for each in home:
            x1, y1, x2, y2 = each.box
            assert 0 <= x1 < x2 <= crop.placed[2]
            assert 0 <= y1 < y2 <= crop.placed[3]
    labels = [each.label for home in result for each in home]
    assert len(set(labels)) == len(labels)


def read(payload: bytes) -> Reply:
    reply = decode_reply(payload)
    assert not isinstance(reply, BadPayload), reply.reason
    return reply


def test_an_answer_that_cannot_be_put_on_the_wire_becomes_a_refusal() -> None:
    job = Job(make_request(3), memoryview(b""), Size(64, 64), ADDRESS, 0.0, 1.0)
    found = Detections.of([[8, 8, 24, 24]], [0.9], [""])
    sealed = ReplyWriter("w", {"m": "1"}).answer(job, found, Durations(), 1)
    assert sealed.refused is Refusal.FAILED
    assert read(sealed.payload).refused is Refusal.FAILED
    assert "label" in read(sealed.payload).detail


def test_a_refusal_reaches_its_agent_even_when_the_header_cannot_be_repeated() -> None:
    writer = ReplyWriter("w", {})
    for request in (None, make_request(3, camera="x" * 5000), make_request(-1), make_request(3, agent="")):
        reply = read(writer.refusal(ADDRESS, request, Refusal.BAD_PAYLOAD, "why" * 1000, Durations()).payload)
        assert (reply.agent, reply.camera, reply.refused) == ("a1", "-", Refusal.BAD_PAYLOAD)
