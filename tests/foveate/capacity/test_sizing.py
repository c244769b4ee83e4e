"""Sizing: the least that keeps the target, and which part is too slow where nothing does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.capacity.queueing import ServiceTime
from foveate.capacity.sizing import MOST_UTILISATION, Demand, Load, Way, size, with_counts
from tests.support.workloads import WHOLE, workload

LOAD = Load(
    kept=0.8, asked=0.5, gate_ms=2.0, encode_ms=2.0, decode_ms=1.0, question_bytes=5_000, edge=ServiceTime(0.01, 0.1),
    cloud=ServiceTime(0.02, 0.1),
)  # fmt: skip
DEMAND = Demand(cameras=100, fps=5.0, deadline_ms=200.0)


def test_the_load_of_a_workload_is_what_its_frames_ask() -> None:
    load = Load.of(workload(frames=100, fps=5.0), full_frame_s=10.0)
    assert (load.kept, load.asked) == (1.0, 1.0)
    assert (load.edge.mean_s, load.edge.variation) == pytest.approx((0.010, 0.0))
    assert load.cloud.mean_s == pytest.approx((99 * 15.0 + WHOLE.infer_ms) / 100 / 1000)


def test_no_part_is_busier_than_it_may_be_and_one_server_less_would_miss_the_target() -> None:
    sizing, way = size(DEMAND, LOAD, Way()), Way()
    assert all(part.utilisation <= MOST_UTILISATION for part in sizing.parts)
    assert sizing.cloud_ms <= 180.0
    assert sizing.lambda_edge == 0.5
    fewer = with_counts(DEMAND, LOAD, way, sizing.nodes, sizing.workers - 1)
    assert fewer.cloud_ms > 180.0 or fewer.parts[1].utilisation > MOST_UTILISATION


@given(st.integers(1, 500), st.floats(1, 3))
def test_a_peak_never_needs_less(cameras: int, peak: float) -> None:
    usual, more = (size(replace(DEMAND, cameras=cameras, peak=p), LOAD, Way()) for p in (1.0, peak))
    assert more.nodes >= usual.nodes
    assert more.nodes + more.workers >= usual.nodes + usual.workers


@given(st.integers(1, 300), st.sampled_from([150.0, 200.0, 400.0]), st.floats(0.9, 0.999))
def test_a_sizing_without_a_fault_keeps_its_own_target(cameras: int, deadline_ms: float, share: float) -> None:
    sizing = size(replace(DEMAND, cameras=cameras, deadline_ms=deadline_ms, share=share), LOAD, Way(50.0, 15.0, 10.0))
    if not sizing.too_slow:
        assert max(sizing.edge_ms, sizing.cloud_ms) <= deadline_ms - DEMAND.margin_ms
        assert sizing.link_utilisation <= MOST_UTILISATION
        assert 1 <= sizing.nodes <= cameras


def test_little_law_is_kept_by_every_part() -> None:
    for part in size(DEMAND, LOAD, Way()).parts:
        assert part.queue_length == pytest.approx(part.rate_per_s * part.wait_ms / 1000)


@pytest.mark.parametrize(
    ("load", "way", "demand", "words"),
    [
        (replace(LOAD, edge=ServiceTime(0.3)), Way(), DEMAND, "small model is too slow: gate and model take 302 ms"),
        (replace(LOAD, cloud=ServiceTime(0.3)), Way(), DEMAND, "300 ms are the larger model"),
        (LOAD, Way(rtt_ms=300.0), DEMAND, "the way there and back"),
        (LOAD, Way(mbit_s=0.05), replace(DEMAND, deadline_ms=2000.0), "link is too slow: one camera needs"),
        (
            replace(LOAD, edge=ServiceTime(0.1)),
            Way(),
            replace(DEMAND, fps=20.0, deadline_ms=400.0),
            "keeps it busy for",
        ),
    ],
)
def test_what_cannot_be_met_names_the_part_that_is_too_slow(load: Load, way: Way, demand: Demand, words: str) -> None:
    assert words in size(demand, load, way).too_slow


def test_where_the_cloud_is_too_slow_the_edge_nodes_are_sized_all_the_same() -> None:
    sizing = size(DEMAND, replace(LOAD, cloud=ServiceTime(0.3)), Way())
    assert (sizing.nodes > 0, sizing.workers, sizing.lambda_edge) == (True, 0, 1.0)


def test_where_nothing_is_asked_no_worker_is_needed() -> None:
    sizing = size(DEMAND, replace(LOAD, asked=0.0), Way(rtt_ms=1000.0))
    assert (sizing.workers, sizing.too_slow) == (0, "")
