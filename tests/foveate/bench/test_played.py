"""Records say when each frame was answered, by whom, how old that was, and how right."""

import numpy as np
import pytest

from foveate.bench.played import Answer, Played, Sent, of_product, records, socket_bytes
from foveate.bench.streaming import State
from foveate.bench.virtual import VirtualRun
from pipeline.geometry import BoxArray
from tests.support.bench_work import person, walking
from tests.support.records import result

SLO_S = 0.15


def answer(seq: int, at_s: float, box: BoxArray, origin: str = "fused", *, cloud: bool = True) -> Answer:
    return Answer(State(seq, at_s, {"person": box}), origin, cloud)


def played(*answers: Answer, sent: tuple[Sent, ...] = ()) -> Played:
    return Played(answers, {seq: seq / 10 for seq in range(10)}, sent, 0, 0.0, 0.0)


def test_a_frame_is_scored_by_what_is_there_by_its_deadline_and_at_its_capture() -> None:
    found = records(played(answer(0, 0.1, person(0, 0.0))), walking(2, 0.0).shown, SLO_S)
    assert found[0].scores.slo == (1, 0, 0)
    assert found[0].scores.d0 == (0, 0, 1)
    assert found[1].scores.d0 == (1, 0, 0)
    assert found[1].latency_s is None


def test_a_box_that_is_somewhat_off_is_right_at_the_lower_overlap_only() -> None:
    found = records(played(answer(0, 0.0, person(0, 0.0) + np.float32(16.0))), walking(1).shown, SLO_S)
    assert found[0].scores.slo == (0, 1, 1)
    assert found[0].scores.slo_iou30 == (1, 0, 0)


def test_staleness_is_the_age_of_the_clouds_last_word_when_a_frame_is_due() -> None:
    by_cloud, by_edge = answer(1, 0.3, person(1, 8.0)), answer(4, 0.4, person(4, 8.0), "edge", cloud=False)
    found = records(played(by_cloud, by_edge), walking(6).shown, SLO_S)
    assert [None if f.stale_s is None else round(f.stale_s, 6) for f in found] == [
        None, None, 0.25, 0.35, 0.45, 0.55,
    ]  # fmt: skip


def test_a_second_answer_corrects_and_does_not_answer_again() -> None:
    first, second = answer(0, 0.1, person(5, 8.0), "edge", cloud=False), answer(0, 0.4, person(0, 8.0))
    found = records(played(first, second), walking(1).shown, SLO_S)[0]
    assert (found.origin, found.latency_s, found.corrected_s, found.cloud) == ("edge", 0.1, 0.4, False)


def test_what_was_sent_is_told_with_its_moment() -> None:
    found = records(played(sent=(Sent(1, 0.12, 4000),)), walking(2).shown, SLO_S)
    assert (found[0].sent_bytes, found[0].sent_at_s) == (0, None)
    assert (found[1].sent_bytes, found[1].sent_at_s) == (4000, 0.12)


def test_boxes_that_are_held_have_no_carried_answers() -> None:
    whole = played(answer(0, 0.1, person(0, 8.0)), answer(1, 0.1, person(1, 8.0), "carried", cloud=False))
    assert [a.state.seq for a in whole.without_carried().answers] == [0]


def test_a_run_of_the_product_is_told_on_a_clock_that_begins_with_its_first_frame(
    empty_worker: VirtualRun,
) -> None:
    found = of_product(empty_worker, 0.01)
    assert found.captured_s == {0: 0.0, 1: pytest.approx(0.1)}
    assert found.edge_s == pytest.approx(0.01)
    assert [a.origin for a in found.answers] == ["edge", "carried"]
    assert found.uplink_bytes == socket_bytes(1000)


@pytest.fixture
def empty_worker() -> VirtualRun:
    from cloud_worker.figures import WorkerStatistics

    nothing = WorkerStatistics(0, 0, 0, {}, {}, {}, {}, 0)
    results = (result(0, [(0, 0, 10, 10)], origin="edge"), result(1, [(0, 0, 10, 10)], origin="carried"))
    return VirtualRun(results, {0: 100.0, 1: 100.1}, socket_bytes(1000), {}, nothing, 1.0, ())
