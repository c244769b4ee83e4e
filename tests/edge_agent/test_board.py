"""What the page and the summary read of one camera."""

from datetime import UTC, datetime, timedelta

import pytest

from edge_agent.board import SEGMENTS, Board
from pipeline.frames import FrameKey
from pipeline.metrics.attainment import Attainment
from pipeline.policies.budgets import Budget
from pipeline.results import CameraState, Origin, Result, ResultDetection, Timings
from tests.support import records

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def result(seq: int, origin: str = "fused", *, labels: tuple[str, ...] = (), met: bool = True, **t: float) -> Result:
    found = [ResultDetection(label, 0.9, (0.0, 0.0, 1.0, 1.0), None, "edge") for label in labels]
    return records.result(seq, origin=origin, detections=found, deadline_met=met, timings_ms=Timings(**t))


def test_a_change_of_state_is_noted_once_with_its_time() -> None:
    board, later = Board(START), START + timedelta(seconds=5)
    assert board.went(CameraState.LIVE, "", later)
    assert not board.went(CameraState.LIVE, "", later + timedelta(seconds=1))
    assert board.went(CameraState.LIVE, "another reason", later + timedelta(seconds=2))
    assert (board.state, board.reason, board.since) == (CameraState.LIVE, "another reason", later)


def test_results_are_counted_by_time_and_by_what_is_in_sight() -> None:
    board = Board(START)
    board.published(result(0, total=50.0, labels=("person", "person", "dog")), 1.0)
    board.published(result(1, total=250.0, met=False, labels=("person",)), 2.0)
    assert (board.answered, board.hit_ratio) == (2, 0.5)
    assert board.counts == {"person": 1}
    assert board.recent_latency(2.0).samples == 2
    assert board.latency.greatest == 250.0


def test_carried_frames_count_as_answers_but_not_as_analysed() -> None:
    board = Board(START)
    board.published(result(0, "carried", total=1.0), 1.0)
    board.published(result(1, "edge", total=50.0), 1.0)
    assert (board.latency.count, board.latency_analysed.count) == (2, 1)
    assert board.recent_latency(1.0).p50_ms == 50.0


def test_answers_are_counted_by_the_tier_that_gave_them() -> None:
    board = Board(START)
    for seq, tier in enumerate(["device", "edge", "edge", "cloud", None]):
        board.published(records.result(seq, tier=tier), 1.0)
    assert board.answers_by_tier == {"device": 2, "edge": 2, "cloud": 1}


def test_the_four_segments_are_told_apart() -> None:
    board = Board(START)
    board.published(result(0, gate=1.0, edge=6.0, encode=2.0, network=30.0, cloud_queue=4.0, cloud_infer=20.0), 1.0)
    segments = board.segments(1.0)
    assert tuple(segments) == SEGMENTS
    assert [segments[name].p50_ms for name in SEGMENTS] == [30.0, 4.0, 9.0, 20.0]
    board.published(result(1, "carried", total=1.0), 1.0)
    assert segments["network"].samples == 1


def test_the_window_forgets_what_is_a_minute_old() -> None:
    board = Board(START)
    board.published(result(0, total=50.0), 1.0)
    assert board.recent_latency(62.0).samples == 0
    assert board.recent_latency(62.0).p50_ms is None


def test_the_share_answered_without_the_cloud_leaves_carried_frames_out() -> None:
    board = Board(START)
    assert board.lambda_edge is None
    for seq, origin in enumerate([Origin.CARRIED, Origin.EDGE, Origin.FUSED, Origin.CLOUD, Origin.EDGE_TIMEOUT]):
        key = FrameKey("hall", 1, seq)
        board.ledger.capture(key)
        board.ledger.final(key, origin)
    assert board.lambda_edge == pytest.approx(0.5)


def test_before_the_first_answer_nothing_is_claimed() -> None:
    board = Board(START)
    assert (board.hit_ratio, board.latency.percentile(99), board.counts) == (None, None, {})
    assert board.state is CameraState.CONNECTING


def test_what_whole_frames_would_cost_is_sampled() -> None:
    board = Board(START)
    board.jpeg_sample(70_000)
    board.jpeg_sample(80_000)
    assert (board.jpeg_samples, board.jpeg_sample_bytes) == (2, 150_000)


def test_attainment_counts_what_was_accepted_for_analysis() -> None:
    board = Board(START)
    board.published(result(0, "fused", total=50.0), 1.0)
    board.published(result(1, "edge_timeout", total=180.0), 1.0)
    board.published(result(2, "edge", total=250.0, met=False), 1.0)
    assert board.attainment == Attainment(accepted=3, hit_edge=1, hit_cloud=1)


@pytest.mark.parametrize("accepted", [True, False])
def test_a_carried_frame_is_no_hit_and_counts_only_where_it_had_been_accepted(accepted: bool) -> None:
    board = Board(START)
    board.published(result(0, "carried", total=5.0), 1.0, accepted=accepted)
    assert board.attainment == Attainment(accepted=int(accepted))


def test_a_promise_may_be_tighter_than_the_deadline() -> None:
    board = Board(START, within_ms=100.0)
    board.published(result(0, "edge", total=100.0), 1.0)
    board.published(result(1, "edge", total=150.0), 1.0)
    assert board.attainment == Attainment(accepted=2, hit_edge=1)
    assert board.hit_ratio == 1.0


def test_a_late_answer_counts_in_the_segments_and_their_budgets() -> None:
    network, gate = Budget("network", 60.0), Budget("edge", 5.0, "gate")
    board = Board(START, [network, gate])
    board.published(result(0, gate=1.0, edge=6.0, network=30.0, cloud_queue=4.0, cloud_infer=20.0), 1.0)
    board.late_answer(Timings(network=300.0, cloud_queue=1.0, cloud_infer=5.0), 1.5)
    assert board.counters["late_answers"] == 1
    assert board.segments(2.0)["network"].p99_ms == 300.0
    assert board.budgets[network].recent(2.0).greatest == 300.0
    assert board.budgets[gate].recent(2.0).count == 1
