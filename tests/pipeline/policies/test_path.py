"""The latency model of a path: its parts, their sum, their age."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.path import PathEstimate, RoundTrip

sizes = st.floats(0.0, 1e6)
durations = st.floats(0.0, 1e4)
trips = st.builds(RoundTrip, st.sampled_from(("mosaic", "frame")), sizes, sizes, durations, durations, durations)


def trip(
    size_bytes: float, network_ms: float, *, queue_ms: float = 2.0, cloud_ms: float = 20.0, kind: str = "mosaic"
) -> RoundTrip:
    return RoundTrip(kind, size_bytes, 0.0, network_ms + queue_ms + cloud_ms, queue_ms, cloud_ms)


def learned(count: int = 60, base_ms: float = 40.0, ms_per_kb: float = 4.0) -> PathEstimate:
    """A path over which ``count`` requests were answered, five a second, the last one at ``count / 5`` seconds."""
    path = PathEstimate()
    for number in range(count):
        size_bytes = (3000.0, 6000.0, 12_000.0)[number % 3]
        path = path.answered(trip(size_bytes, base_ms + ms_per_kb * size_bytes / 1000), (number + 1) / 5)
    return path


def test_nothing_is_foretold_before_the_first_answer() -> None:
    path = PathEstimate()
    assert path.forecast(1000, 0.0) is None
    assert path.p95_ms(0.0) is None
    assert path.bandwidth_bytes_s is None


def test_the_four_parts_are_learned_from_the_round_trip_and_the_workers_own_durations() -> None:
    forecast = learned().forecast(8000, 12.1)
    assert forecast is not None
    assert forecast.up_ms == pytest.approx(20 + 32, abs=1)
    assert forecast.down_ms == pytest.approx(20, abs=1)
    assert forecast.queue_ms == pytest.approx(2.0)
    assert forecast.cloud_ms == pytest.approx(20.0)
    assert forecast.mean_ms == pytest.approx(94, abs=1)
    assert forecast.tail_ms == pytest.approx(94, abs=2)  # nothing ever varied


def test_the_bandwidth_is_that_at_which_bytes_were_delivered() -> None:
    bandwidth_bytes_s = learned(ms_per_kb=8.0).bandwidth_bytes_s
    assert bandwidth_bytes_s is not None
    assert bandwidth_bytes_s == pytest.approx(125_000, rel=0.05)


def test_a_fast_link_is_not_given_a_bandwidth_that_nothing_shows() -> None:
    path = PathEstimate()
    for number in range(60):
        network_ms = 3.0 + (number * 7 % 5) / 5
        path = path.answered(trip((3000.0, 6000.0, 12_000.0)[number % 3], network_ms), number / 5)
    assert path.bandwidth_most_bytes_s(12.0) is None or path.bandwidth_most_bytes_s(12.0) > 5e6  # type: ignore[operator]


def test_the_bandwidth_that_is_hardly_exceeded_is_not_below_the_real_one() -> None:
    most_bytes_s = learned(ms_per_kb=8.0).bandwidth_most_bytes_s(12.1)
    assert most_bytes_s is not None
    assert 125_000 <= most_bytes_s * 1.02 <= 160_000


def test_a_frame_costs_the_worker_more_than_a_mosaic_and_each_kind_is_known_by_itself() -> None:
    path = learned().answered(trip(9000, 76, cloud_ms=60, kind="frame"), 12.1)
    mosaic, frame = path.forecast(9000, 12.2), path.forecast(9000, 12.2, "frame")
    assert mosaic is not None
    assert frame is not None
    assert mosaic.cloud_ms == pytest.approx(20)
    assert frame.cloud_ms == pytest.approx(60)


def test_a_first_frame_does_not_make_what_is_known_of_mosaics_uncertain() -> None:
    before = learned()
    after = before.answered(trip(9000, 76, cloud_ms=600, kind="frame"), 12.1)
    assert after.deviation_ms <= before.deviation_ms + 1


def test_what_is_still_on_the_way_up_comes_first() -> None:
    path = learned()
    alone = path.forecast(8000, 12.1)
    behind = path.sent(10_000, 12.1).forecast(8000, 12.1)
    later = path.sent(10_000, 12.1).forecast(8000, 12.2)
    assert alone is not None
    assert behind is not None
    assert later is not None
    assert behind.up_ms == pytest.approx(alone.up_ms + 40, rel=0.02)
    assert later.up_ms == pytest.approx(alone.up_ms)


def test_seen_from_before_it_was_sent_a_message_is_no_longer_than_it_is() -> None:
    path = PathEstimate().sent(5000, 10.0)
    assert path.ahead_bytes(9.8) == path.ahead_bytes(10.0) == 5000


def test_a_request_that_waited_behind_another_does_not_make_the_link_look_slow() -> None:
    path = learned()
    waited = RoundTrip("mosaic", 6000, 12_000, 40 + 4 * 18 + 22, 2, 20)
    after = path.answered(waited, 12.1)
    assert after.link.ms_per_kb == pytest.approx(path.link.ms_per_kb, rel=0.02)


def test_the_tail_and_the_95th_percentile_follow_what_varied() -> None:
    path = learned()
    for number in range(40):
        path = path.answered(trip(6000, 64 + (60 if number % 10 == 9 else 0)), 12 + (number + 1) / 5)
    forecast, p95_ms = path.forecast(6000, 20.1), path.p95_ms(20.1)
    assert forecast is not None
    assert p95_ms is not None
    assert forecast.tail_ms > forecast.mean_ms + 5
    assert p95_ms == pytest.approx(64 + 22 + 60, abs=15)


def test_the_95th_percentile_of_many_cameras_remembers_more_than_the_last_quarter_of_a_second() -> None:
    path = learned()
    for number in range(250):  # 125 answers a second, and each half second a spell of 50 ms in which they queue
        now_s, queue_ms = 12 + number / 125, 40.0 if number % 62 < 6 else 0.0
        path = path.answered(trip(6000, 64, queue_ms=queue_ms), now_s)
        p95_ms = path.p95_ms(now_s)
        assert p95_ms is not None
        assert number < 100 or p95_ms > 64 + 20 + 35


def test_a_forecast_does_not_outlive_what_it_rests_on() -> None:
    path = learned()
    assert path.forecast(8000, 12.9) is not None
    assert path.forecast(8000, 13.0) is None
    assert path.p95_ms(13.0) is None


def test_a_probe_keeps_the_network_known_and_lets_the_worker_be_tried() -> None:
    probed = learned().probed(100, 0.0, 40.4, 13.5)
    forecast = probed.forecast(8000, 13.6)
    assert forecast is not None
    assert (forecast.queue_ms, forecast.cloud_ms) == (0.0, 0.0)
    assert forecast.mean_ms == pytest.approx(72, abs=1)


def test_a_probe_shows_that_the_link_has_become_slow() -> None:
    path = learned()
    for number in range(5):
        path = path.probed(100, 0.0, 240.0, 13.0 + number / 5)
    forecast = path.forecast(8000, 14.0)
    assert forecast is not None
    assert forecast.mean_ms > 200


def test_probes_of_a_path_that_is_not_used_tell_how_much_it_varies() -> None:
    quiet = jittery = learned()
    for number in range(40):
        at_s = 13.0 + 5 * number
        quiet = quiet.probed(20, 0.0, 40.0, at_s)
        jittery = jittery.probed(20, 0.0, 40.0 + 30.0 * (-1) ** number, at_s)
    assert quiet.deviation_ms < 5 < 15 < jittery.deviation_ms
    assert PathEstimate().probed(20, 0.0, 40.0, 1.0).deviation_ms == 0.0  # until an answer has begun it


@given(st.lists(st.tuples(trips, st.floats(0.0, 3.0)), max_size=50), sizes, sizes, st.floats(0.0, 0.9))
def test_a_forecast_is_never_negative_and_no_less_for_more_bytes(
    moves: list[tuple[RoundTrip, float]], one_bytes: float, other_bytes: float, since_s: float
) -> None:
    path, now_s = PathEstimate(), 0.0
    for answered, gap_s in moves:
        now_s += gap_s
        path = path.sent(answered.size_bytes, now_s).answered(answered, now_s)
    small, large = (path.forecast(size, now_s + since_s) for size in sorted((one_bytes, other_bytes)))
    assert (small is None) == (large is None) == (not moves)
    if small is not None and large is not None:
        assert min(small.up_ms, small.queue_ms, small.cloud_ms, small.down_ms) >= 0
        assert small.up_ms <= large.up_ms
        assert small.mean_ms <= small.tail_ms <= large.tail_ms
        p95_ms = path.p95_ms(now_s + since_s)
        assert p95_ms is None or p95_ms >= 0
    assert len(path.recent_ms) <= 32


@given(st.lists(st.tuples(sizes, st.floats(0.0, 2.0)), max_size=30))
def test_what_is_on_the_way_up_is_never_more_than_was_sent_and_goes_with_time(
    moves: list[tuple[float, float]],
) -> None:
    path, now_s, total_bytes = learned(), 12.0, 0.0
    for size_bytes, gap_s in moves:
        now_s += gap_s
        path, total_bytes = path.sent(size_bytes, now_s), total_bytes + size_bytes
        assert 0 <= path.ahead_bytes(now_s + 1) <= path.ahead_bytes(now_s) <= total_bytes + 1e-6


def test_the_largest_request_that_is_in_time_takes_just_the_time_that_there_is() -> None:
    path = learned()
    most_bytes = path.most_bytes(120.0, 12.1)
    assert most_bytes is not None
    forecast = path.forecast(most_bytes, 12.1)
    assert forecast is not None
    assert forecast.tail_ms == pytest.approx(120.0)
    assert path.most_bytes(10.0, 12.1) == 0.0


def test_how_much_is_in_time_is_unknown_where_the_way_or_the_worker_is() -> None:
    assert PathEstimate().most_bytes(100.0, 0.0) is None
    assert learned().most_bytes(100.0, 13.5) is None
    assert learned().most_bytes(100.0, 12.1, "frame") is None
