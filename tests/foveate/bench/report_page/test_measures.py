"""What is said of a system follows from its frames."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.bench.report_page.measures import System, front, least_cost, quantile, systems, value_at
from foveate.bench.report_page.records import FrameRecord, Run, Scores
from tests.support.bench_records import frame, head, run

points = st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1)), min_size=1, max_size=12)


def of(*frames: FrameRecord, **about: Any) -> System:
    return System((Run(head(**about), list(frames)),))


def test_hits_of_edge_and_cloud_are_apart_and_a_late_or_missing_answer_is_none() -> None:
    system = of(
        frame(0, latency_s=0.15),
        frame(1, latency_s=0.16),
        frame(2, cloud=False, origin="edge", latency_s=0.02),
        frame(3, origin=None, latency_s=None, cloud=False),
        duration_s=0.4,
    )
    assert system.hits(cloud=True) == 0.25
    assert system.hits(cloud=False) == 0.25
    assert system.goodput == pytest.approx(2 / 0.4)


def test_latency_is_of_frames_that_were_looked_at() -> None:
    system = of(frame(0, latency_s=0.1), frame(1, origin="carried", latency_s=0.0), frame(2, latency_s=0.3))
    assert system.latency_ms.tolist() == pytest.approx([100, 300])


def test_a_correction_is_a_later_answer_than_the_first() -> None:
    system = of(frame(0, latency_s=0.1, corrected_s=0.1), frame(1, latency_s=0.1, corrected_s=0.4))
    assert system.corrected_ms.tolist() == pytest.approx([400])


def test_f1_is_pooled_over_frames_and_seeds() -> None:
    one = Run(head(), [frame(0, scores=Scores(slo=(3, 0, 1)))])
    two = Run(head(seed=1), [frame(0, scores=Scores(slo=(0, 2, 4)))])
    system = System((one, two))
    assert system.sf1.value == pytest.approx(2 * 3 / (2 * 3 + 2 + 5))
    assert list(system.by_seed) == pytest.approx([0.0, 6 / 7])


def test_f1_of_a_clip_that_is_not_there_is_no_number() -> None:
    assert math.isnan(of(frame(0)).f1("slo", "bottle"))


def test_the_peak_is_of_the_second_in_which_most_was_sent() -> None:
    system = of(*(frame(n, sent_at_s=0.5 + 0.1 * n, sent_bytes=1000) for n in range(10)))
    assert system.peak_kbps == pytest.approx(5 * 8)


def test_count_accuracy_is_1_where_nothing_is_there_and_nothing_found() -> None:
    assert of(frame(0, found=0, true=0), frame(1, found=3, true=4)).count_accuracy == pytest.approx((1 + 0.75) / 2)


def test_runs_that_differ_in_the_seed_alone_are_one_system() -> None:
    runs = [run(head(seed=1)), run(head(seed=0)), run(head(setting="20 kbit/s")), run(head(network="wifi"))]
    found = systems(runs)
    assert sorted(len(system.runs) for system in found) == [1, 1, 2]
    assert [r.head.seed for s in found for r in s.runs if len(s.runs) == 2] == [0, 1]


def test_a_better_system_is_surely_better_on_the_same_segments() -> None:
    better, worse = System((run(head(), 0.9),)), System((run(head("B8 random"), 0.7),))
    assert better.less(worse).low > 0 > worse.less(better).high


@given(points)
def test_nothing_on_the_front_is_beaten_and_everything_else_is(all_points: list[tuple[float, float]]) -> None:
    best = front(all_points)
    for cost, value in all_points:
        beaten = any(c <= cost and v >= value and (c, v) != (cost, value) for c, v in best)
        assert beaten or (cost, value) in best
    assert best == sorted(best)
    assert [value for _, value in best] == sorted(value for _, value in best)


@given(points, st.floats(0, 1))
def test_the_least_cost_reaches_the_value_and_lies_on_the_curve(curve: list[tuple[float, float]], value: float) -> None:
    cost = least_cost(curve, value)
    if cost is None:
        assert max(y for _, y in curve) < value
    else:
        assert min(x for x, _ in curve) <= cost <= max(x for x, _ in curve)


def test_between_two_rates_a_line_is_drawn_and_outside_of_them_none() -> None:
    curve = [(100.0, 0.9), (0.0, 0.8)]
    assert value_at(curve, 50.0) == pytest.approx(0.85)
    assert value_at(curve, 101.0) is None
    assert least_cost(curve, 0.85) == pytest.approx(50.0)
    assert least_cost(curve, 0.91) is None


def test_a_quantile_of_nothing_is_no_number() -> None:
    assert math.isnan(quantile(of(frame(0, stale_s=None)).stale_ms, 0.5))
