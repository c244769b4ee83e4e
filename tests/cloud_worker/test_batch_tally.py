"""Batches are counted by size and reason, and their padding in pixels."""

import pytest

from cloud_worker.batch_tally import BatchTally
from cloud_worker.jobs import Job, ReplyAddress
from pipeline.geometry import Size
from pipeline.policies.batch import BatchReason
from tests.support.workers import make_request


def job(width: int, height: int, bucket: Size | None = None) -> Job:
    return Job(make_request(1), memoryview(b""), Size(width, height), ReplyAddress("t", b"c"), 0.0, 1.0, bucket)


def test_padding_is_counted_against_the_input_of_the_model() -> None:
    tally = BatchTally()
    assert tally.figures().padded_share is None
    tally.count([job(64, 64), job(48, 64)], BatchReason.FULL)
    tally.count([job(64, 64, Size(128, 64))], BatchReason.IDLE)
    figures = tally.figures()
    assert (figures.sizes, figures.reasons) == ({"1": 1, "2": 1}, {"full": 1, "idle": 1})
    assert figures.padded_share == pytest.approx(1 - (64 + 48 + 64) / (64 + 64 + 128))


def test_a_picture_that_is_shrunk_into_the_input_counts_as_unpadded() -> None:
    tally = BatchTally()
    tally.count([job(1000, 800, Size(576, 416))], BatchReason.IDLE)
    assert tally.figures().padded_share == 0
