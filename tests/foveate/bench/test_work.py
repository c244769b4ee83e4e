"""What a record tells about the work behind it."""

from foveate.bench.work import Counts, Work, counts_of, work_of
from pipeline.results import Models
from tests.support.records import result

RECORD = {
    0: result(0, origin="fused", bytes_up=900, models=Models("small@1", "large@1")),
    1: result(1, origin="carried", models=Models(None, None)),
    2: result(2, origin="edge_timeout", bytes_up=700),
    3: result(3, origin="edge"),
}


def test_a_frame_counts_as_far_as_it_went() -> None:
    assert work_of(RECORD) == {
        0: Work(analysed=True, asked=True, answered=True),
        1: Work(analysed=False, asked=False, answered=False),
        2: Work(analysed=True, asked=True, answered=False),
        3: Work(analysed=True, asked=False, answered=False),
    }


def test_counts_add_up_the_frames_and_the_bytes() -> None:
    assert counts_of(RECORD) == Counts(frames=4, analysed=3, asked=2, answered=1, bytes_up=1600)
