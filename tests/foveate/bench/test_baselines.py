"""The baselines do what their names say, over the same network as the product."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.bench.baselines import Rules, Way, edge_dense, every, over_link
from foveate.bench.played import Played, records, socket_bytes
from foveate.bench.streaming import pooled, streaming_scores
from pipeline.network.profiles import profile
from tests.support.bench_work import constant_times, walking

SLO_S = 0.15


def f1(played: Played, count: int, within_s: float, speed_px: float = 8.0) -> float:
    states = [answer.state for answer in played.answers]
    return pooled(streaming_scores(states, walking(count, speed_px).shown, played.captured_s, within_s))


def test_without_a_network_a_cloud_that_sees_every_frame_is_always_right() -> None:
    played = over_link(walking(40), Way(None, None, 0), every(1), Rules("nothing", in_flight=None))
    assert f1(played, 40, 0.0) == 1.0
    assert played.uplink_bytes == 40 * socket_bytes(20_000)


def test_boxes_that_are_moved_along_stay_right_where_held_ones_do_not() -> None:
    slow = walking(60, 5.0)
    held, moved = (over_link(slow, Way(None, None, 0), every(5), Rules(fill)) for fill in ("hold", "velocity"))
    assert held.uplink_bytes == moved.uplink_bytes
    assert f1(moved, 60, 0.0, 5.0) >= f1(held, 60, 0.0, 5.0) + 0.2


def test_in_turn_means_that_answers_get_later_and_later_where_the_link_is_too_slow() -> None:
    played = over_link(walking(80), Way(profile("3g"), constant_times(), 0), every(1), Rules("nothing", in_flight=None))
    latency_s = [record.latency_s or 0.0 for record in records(played, walking(80).shown, SLO_S)]
    assert min(latency_s) > 0
    assert all(later > earlier for earlier, later in zip(latency_s, latency_s[20:], strict=False))
    assert latency_s[-1] > 10 * latency_s[0]


def test_the_newest_frame_wins_where_not_all_can_go() -> None:
    rules = Rules("nothing", in_flight=1, timeout_s=1.0)
    played = over_link(walking(80), Way(profile("lte-weak"), constant_times(), 0), every(1), rules)
    asked = [question.seq for question in played.sent]
    assert 0 < len(asked) < 80
    assert asked == sorted(asked)
    answered = [answer.state for answer in played.answers]
    assert max(state.published_s - state.seq / 10 for state in answered) <= 1.0


@given(st.integers(1, 4), st.sampled_from([None, 0.2, 1.0]), st.sampled_from(["lte", "3g", "outage"]))
def test_no_more_is_under_way_than_is_allowed(in_flight: int, timeout_s: float | None, network: str) -> None:
    rules = Rules("nothing", in_flight, timeout_s)
    played = over_link(walking(60), Way(profile(network), constant_times(), 0), every(1), rules)
    there = {answer.state.seq: answer.state.published_s for answer in played.answers}
    for question in played.sent:
        before = [q.seq for q in played.sent if q.at_s < question.at_s - 1e-9]
        until = [min(there.get(seq, math.inf), seq / 10 + (timeout_s or math.inf)) for seq in before]
        assert sum(over_s > question.at_s + 1e-9 for over_s in until) < in_flight


@given(st.sampled_from(["nothing", "hold", "velocity"]), st.integers(1, 7), st.integers(0, 3))
def test_answers_are_in_the_order_of_publishing_and_never_before_their_frame(fill: str, n: int, seed: int) -> None:
    played = over_link(walking(50), Way(profile("lte", seed), constant_times(), seed), every(n), Rules(fill))  # type: ignore[arg-type] # all three are fills
    moments = [answer.state.published_s for answer in played.answers]
    assert moments == sorted(moments)
    assert all(answer.state.published_s >= answer.state.seq / 10 - 1e-9 for answer in played.answers)


def test_a_run_is_the_same_for_the_same_seed() -> None:
    def moments(seed: int) -> list[float]:
        way = Way(profile("lte", seed), constant_times(), seed)
        return [a.state.published_s for a in over_link(walking(30), way, every(1), Rules("nothing")).answers]

    assert moments(1) == moments(1) != moments(2)


def test_the_edge_alone_answers_every_frame_after_its_own_time() -> None:
    work = walking(30)
    played = edge_dense(work, constant_times(edge_s=0.02), 0)
    assert played.uplink_bytes == 0
    assert played.edge_s == pytest.approx(30 * 0.02)
    assert {round(r.latency_s or 0.0, 6) for r in records(played, work.shown, SLO_S)} == {0.02}


def test_an_edge_that_is_slower_than_the_camera_falls_behind() -> None:
    played = edge_dense(walking(30), constant_times(edge_s=0.15), 0)
    assert played.answers[-1].state.published_s == pytest.approx(30 * 0.15)


def test_of_two_answers_at_the_same_moment_the_later_counts() -> None:
    played = over_link(walking(40), Way(None, None, 0), every(1), Rules("hold"))
    assert f1(played, 40, 0.0) == 1.0
