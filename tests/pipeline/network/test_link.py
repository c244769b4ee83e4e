"""One direction of a network: order, rate, outages, loss, and the same again for the same seed."""

import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.network.link import HEADER_BYTES, SEGMENT_BYTES, Epoch, Link, LinkSettings
from pipeline.network.rate import constant, interrupted

Traffic = list[tuple[int, float]]
"""Sizes in bytes, and the time since the one before."""

traffic = st.lists(st.tuples(st.integers(0, 100_000), st.floats(0, 1)), min_size=1, max_size=40)
seeds = st.integers(0, 1000)
OUTAGES = [(2.0, 6.0), (7.0, 7.5)]


def on_wire(size_bytes: int) -> int:
    return size_bytes + HEADER_BYTES * max(1, math.ceil(size_bytes / SEGMENT_BYTES))


def rough(rate: float = 125_000.0) -> LinkSettings:
    return LinkSettings(interrupted([(0.0, rate)], OUTAGES), 0.025, 0.015, 0.02, 0.05)


def plain(rate: float = 125_000.0, burst: float = 0.0) -> LinkSettings:
    return LinkSettings(constant(rate), 0.025, burst_bytes=burst)


def arrivals(link: Link, sent: Traffic) -> list[tuple[float, float]]:
    """When each of them was sent, and when it arrives."""
    now_s, out = 0.0, []
    for size_bytes, pause_s in sent:
        now_s += pause_s
        out.append((now_s, link.transmit(size_bytes, now_s)))
    return out


@given(traffic, seeds)
def test_nothing_overtakes_and_nothing_arrives_before_it_is_sent(sent: Traffic, seed: int) -> None:
    times = arrivals(Link(rough(), seed, Epoch(0.0)), sent)
    assert all(arrives >= at for at, arrives in times)
    assert all(earlier <= later for (_, earlier), (_, later) in pairwise(times))


@given(traffic, seeds)
def test_the_same_seed_gives_the_same_arrivals(sent: Traffic, seed: int) -> None:
    assert arrivals(Link(rough(), seed), sent) == arrivals(Link(rough(), seed), sent)


def test_another_seed_gives_others() -> None:
    sent = [(1000, 0.1)] * 20
    assert arrivals(Link(rough(), 1), sent) != arrivals(Link(rough(), 2), sent)


@given(traffic)
def test_the_link_works_whenever_something_waits(sent: Traffic) -> None:
    rate, free_s, now_s = 125_000.0, 0.0, 0.0
    link = Link(plain(rate), 0, Epoch(0.0))
    for size_bytes, pause_s in sent:
        now_s += pause_s
        free_s = max(free_s, now_s) + on_wire(size_bytes) / rate
        assert link.transmit(size_bytes, now_s) == pytest.approx(free_s + 0.025, rel=1e-9)
        assert link.waiting_bytes(now_s) == pytest.approx((free_s - now_s) * rate)
    assert link.wire_bytes == sum(on_wire(size_bytes) for size_bytes, _ in sent)


@given(traffic, seeds)
def test_no_more_than_the_rate_and_the_burst_pass_in_any_time(sent: Traffic, seed: int) -> None:
    rate, burst = 125_000.0, 3000.0
    link = Link(LinkSettings(constant(rate), 0.0, burst_bytes=burst), seed, Epoch(0.0))
    times = [arrives for _, arrives in arrivals(link, sent)]
    sizes = [on_wire(size_bytes) for size_bytes, _ in sent]
    for first in range(len(sent)):
        passed = sum(sizes[first:])
        assert passed <= rate * (times[-1] - times[first]) + burst + sizes[first] + 1e-3


@given(traffic, seeds)
def test_nothing_passes_in_an_outage(sent: Traffic, seed: int) -> None:
    settings = LinkSettings(interrupted([(0.0, 125_000.0)], OUTAGES), 0.0, 0.0, 0.2, 0.3)
    for _, arrives in arrivals(Link(settings, seed, Epoch(0.0)), sent):
        assert not any(start <= arrives < end for start, end in OUTAGES)


def test_what_is_lost_before_an_outage_is_sent_again_after_it() -> None:
    settings = LinkSettings(interrupted([(0.0, 1e9)], [(1.0, 50.0)]), 0.0, 0.0, 0.5, 1.0)
    arrivals_s = [Link(settings, seed, Epoch(0.0)).transmit(100, 0.5) for seed in range(100)]
    assert min(arrivals_s) == 0.5
    assert {round(arrives) for arrives in arrivals_s if arrives != 0.5} >= {50, 52}
    assert not [arrives for arrives in arrivals_s if 1.0 <= arrives < 50.0]


def test_after_a_silence_the_burst_passes_at_once_and_no_more() -> None:
    link = Link(plain(1500.0, burst=3000.0), 0, Epoch(0.0))
    assert [link.transmit(1460, 100.0) for _ in range(4)] == pytest.approx([100.025, 100.025, 101.025, 102.025])


def test_what_waits_through_an_outage_passes_after_it_at_the_rate_of_the_link() -> None:
    link = Link(LinkSettings(interrupted([(0.0, 150_000.0)], OUTAGES), 0.025, burst_bytes=0), 0, Epoch(0.0))
    assert [link.transmit(14_600, 2.5) for _ in range(3)] == pytest.approx([6.125, 6.225, 6.325])


def test_over_time_a_busy_link_carries_its_rate() -> None:
    link = Link(LinkSettings(constant(125_000.0), 0.025, 0.01, 0.01, 0.05), 3, Epoch(0.0))
    last_s = 0.0
    for _ in range(2000):
        last_s = link.transmit(14_600, 0.0)
    assert link.wire_bytes / last_s == pytest.approx(125_000.0, rel=0.01)


def test_the_delay_has_the_mean_and_the_deviation_that_are_set() -> None:
    link = Link(LinkSettings(constant(1e9), 0.05, 0.01), 5)
    delays = [link.transmit(100, second / 10) - second / 10 for second in range(4000)]
    assert statistics.mean(delays) == pytest.approx(0.05, abs=0.001)
    assert statistics.stdev(delays) == pytest.approx(0.01, rel=0.05)


def test_a_delay_is_never_below_zero_however_much_it_varies() -> None:
    link = Link(LinkSettings(constant(1e9), 0.001, 0.05), 5)
    assert all(link.transmit(10, float(second)) >= second for second in range(500))


@given(seeds, traffic, traffic)
def test_the_delay_of_a_moment_does_not_depend_on_what_was_sent_before(seed: int, one: Traffic, other: Traffic) -> None:
    settings = LinkSettings(constant(1e9), 0.05, 0.01)
    last = []
    for sent in (one, other):
        link = Link(settings, seed, Epoch(0.0))
        arrivals(link, sent)
        last.append(link.transmit(100, 100.0))
    assert last[0] == pytest.approx(last[1], abs=1e-9)


@pytest.mark.parametrize("loss", [0.01, 0.2])
def test_a_lost_segment_costs_a_round_trip_and_twice_that_when_it_is_lost_again(loss: float) -> None:
    link = Link(LinkSettings(constant(1e12), 0.0, 0.0, loss, 0.1), 11)
    count = 20_000
    extra = [round(link.transmit(100, 100.0 * number) - 100.0 * number, 6) for number in range(count)]
    assert set(extra) <= {0.0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7}
    lost = sum(value > 0 for value in extra) / count
    twice = sum(value > 0.1 for value in extra) / count
    assert lost == pytest.approx(loss, rel=0.2)
    assert twice == pytest.approx(loss**2, rel=0.5)


def test_of_a_large_message_each_segment_may_be_lost_and_what_is_sent_again_takes_room() -> None:
    link = Link(LinkSettings(constant(1e9), 0.0, 0.0, 0.01, 0.1), 2)
    late = sum(link.transmit(146_000, 10.0 * number) - 10.0 * number > 0.1 for number in range(1000)) / 1000
    assert late == pytest.approx(1 - 0.99**100, abs=0.05)
    assert link.wire_bytes / (1000 * 150_000) == pytest.approx(1 / 0.99, rel=0.002)


def test_behind_a_lost_segment_its_own_stream_waits_and_another_does_not() -> None:
    link = Link(LinkSettings(constant(1e9), 0.01, 0.0, 0.5, 1.0), 1, Epoch(0.0))
    bulk, control = link.stream(), link.stream()
    now_s = 0.0
    while bulk.transmit(100, now_s) < now_s + 1.0:
        now_s += 0.001
    lost_until_s = bulk.transmit(0, now_s)
    others = [control.transmit(100, now_s)]
    while min(others) > now_s + 0.5:  # until one that is not lost itself
        now_s += 0.001
        control = link.stream()
        others.append(control.transmit(100, now_s))
    assert min(others) < lost_until_s
    assert bulk.transmit(100, now_s) >= lost_until_s


def test_streams_share_one_queue() -> None:
    link = Link(plain(1500.0), 0, Epoch(0.0))
    assert link.stream().transmit(1460, 0.0) == pytest.approx(1.025)
    assert link.stream().transmit(1460, 0.0) == pytest.approx(2.025)


def test_time_starts_at_a_given_moment_or_with_the_first_byte_of_either_direction() -> None:
    settings = LinkSettings(interrupted([(0.0, 1e9)], [(5.0, 8.0)]), 0.0)
    assert Link(settings, 0, Epoch(100.0)).transmit(1, 106.0) == pytest.approx(108.0)
    epoch = Epoch()
    up, down = Link(settings, 0, epoch), Link(settings, 1, epoch)
    assert up.transmit(1, 100.0) == pytest.approx(100.0, abs=1e-3)
    assert down.transmit(1, 106.0) == pytest.approx(108.0)


@given(traffic, seeds, st.floats(0, 200_000))
def test_there_is_room_when_it_is_said(sent: Traffic, seed: int, limit: float) -> None:
    link = Link(rough(), seed, Epoch(0.0))
    now_s = arrivals(link, sent)[-1][0]
    room_s = link.room_at_s(limit, now_s)
    assert room_s >= now_s
    assert link.waiting_bytes(room_s) <= limit + 1e-3
    if room_s > now_s + 1e-3:
        assert link.waiting_bytes(room_s - 1e-3) > limit - 1e-3


@pytest.mark.parametrize(
    "wrong", [{"delay_s": -1.0}, {"jitter_s": -1.0}, {"loss": 1.0}, {"loss": -0.1}, {"recovery_s": -1.0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not below 0"):
        LinkSettings(constant(1.0), **{"delay_s": 0.0, **wrong})


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        Link(plain(), 0).transmit(-1, 0.0)
