"""Little's law, measured: rate, wait and length of a queue, each in its own way."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.metrics.little import QueueFlow, QueueMeter


def test_a_queue_that_nothing_came_to_has_no_wait() -> None:
    assert QueueMeter().flow(5.0) == QueueFlow(0, 0.0, None, 0.0)
    assert QueueMeter().flow(5.0).expected_length is None


def test_length_rate_and_wait_are_those_of_what_came_and_went() -> None:
    meter = QueueMeter(span_s=10.0, slots=10)
    for at_s, waited_s in ((0.0, None), (1.0, None), (3.0, 3.0), (4.0, 3.0)):
        if waited_s is None:
            meter.arrived(at_s)
        else:
            meter.left(at_s, waited_s)
    flow = meter.flow(5.0)
    assert (flow.length, flow.arrivals_per_s, flow.wait_s) == (0, 2 / 5, 3.0)
    assert flow.mean_length == pytest.approx((1 + 2 + 2 + 1) / 5)
    assert flow.expected_length == pytest.approx(flow.mean_length)


def test_what_is_older_than_the_window_counts_no_more() -> None:
    meter = QueueMeter(span_s=10.0, slots=10)
    meter.arrived(0.0)
    meter.left(5.0, 5.0)
    meter.arrived(20.0)
    flow = meter.flow(24.0)
    assert (flow.length, flow.wait_s) == (1, None)
    assert flow.arrivals_per_s == pytest.approx(1 / 9)
    assert flow.mean_length == pytest.approx(4 / 9)


def test_what_stays_fills_the_whole_window_however_seldom_one_looks() -> None:
    meter = QueueMeter(span_s=10.0, slots=10)
    meter.arrived(0.0)
    meter.arrived(0.0)
    assert meter.flow(1000.5).mean_length == pytest.approx(2.0)


def test_nothing_leaves_an_empty_queue() -> None:
    with pytest.raises(ValueError, match="nothing is in the queue"):
        QueueMeter().left(0.0, 0.0)


def test_a_window_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="span"):
        QueueMeter(span_s=0.0)


def test_in_a_steady_queue_the_product_of_rate_and_wait_is_the_mean_length() -> None:
    rng, meter = Random(1), QueueMeter(span_s=60.0, slots=60)
    events = []
    at_s = 0.0
    while at_s < 120.0:
        at_s += rng.expovariate(20.0)
        waited_s = rng.uniform(0.05, 0.25)
        events += [(at_s, 0.0), (at_s + waited_s, waited_s)]
    for moment_s, waited_s in sorted(events):
        if waited_s:
            meter.left(moment_s, waited_s)
        else:
            meter.arrived(moment_s)
    flow = meter.flow(120.0)
    assert flow.mean_length == pytest.approx(20.0 * 0.15, rel=0.1)
    assert flow.expected_length == pytest.approx(flow.mean_length, rel=0.02)


@given(st.lists(st.tuples(st.floats(0, 20), st.booleans()), max_size=40))
def test_the_mean_length_is_exact_while_all_is_within_the_window(steps: list[tuple[float, bool]]) -> None:
    """However time passes: the measured length is the area under the length, over the time."""
    meter, now_s, area, inside = QueueMeter(span_s=1000.0, slots=100), 0.0, 0.0, list[float]()
    meter.arrived(0.0)
    inside.append(0.0)
    for gap_s, leaves in steps:
        area, now_s = area + len(inside) * gap_s, now_s + gap_s
        if leaves and inside:
            meter.left(now_s, now_s - inside.pop(0))
        else:
            meter.arrived(now_s)
            inside.append(now_s)
    flow = meter.flow(now_s)
    assert flow.length == len(inside)
    assert flow.mean_length == pytest.approx(area / max(now_s, 1.0), abs=1e-6)
