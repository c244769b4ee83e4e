"""Networks by name."""

import itertools
import statistics
from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.network.profiles import OUTAGES, PROFILES, Profile, profile

TABLE = {
    "wifi": (30, 60, 8, 3, 0.001),
    "lte": (10, 30, 50, 15, 0.005),
    "lte-weak": (2, 6, 80, 30, 0.01),
    "3g": (0.9, 2, 150, 60, 0.01),
}
"""Up and down in Mbit/s, round trip and its deviation in ms, loss."""


def mbit_s(network: Profile, from_s: float, until_s: float) -> tuple[float, float]:
    """What each direction carries between two moments, on average."""
    up, down = (
        (direction.capacity.carried_bytes(until_s) - direction.capacity.carried_bytes(from_s))
        * 8e-6
        / (until_s - from_s)
        for direction in (network.up, network.down)
    )
    return up, down


def round_trips_ms(network: Profile, count: int) -> list[float]:
    """Of small messages, one per second."""
    up, down = network.links(0.0)
    return [1000 * (down.transmit(100, up.transmit(100, float(at_s))) - at_s) for at_s in range(count)]


@pytest.mark.parametrize("name", TABLE)
def test_a_profile_has_the_rates_the_round_trip_and_the_loss_of_its_name(name: str) -> None:
    network = profile(name, 1)
    up, down, rtt_ms, jitter_ms, loss = TABLE[name]
    assert mbit_s(network, 10, 1000) == pytest.approx((up, down))
    assert (network.up.loss, network.down.loss, network.rtt_s) == (loss, loss, rtt_ms / 1000)
    unlost = sorted(round_trips_ms(network, 3000))[: int(3000 * (1 - 2.5 * loss))]
    assert statistics.mean(unlost) == pytest.approx(rtt_ms, rel=0.05)
    assert statistics.stdev(unlost) == pytest.approx(jitter_ms, rel=0.12)


def test_a_picture_of_76_kb_takes_as_long_on_lte_as_its_bytes_at_10_mbit_per_s() -> None:
    up, _ = profile("lte", 1).links()
    took_ms = [1000 * (up.transmit(76_000, float(at_s)) - at_s) for at_s in range(500)]
    assert statistics.median(took_ms) == pytest.approx(61 + 25 + 2.5, abs=4)  # bytes, half a round trip, headers


def test_step_falls_to_a_tenth_for_20_s() -> None:
    network = profile("step")
    assert mbit_s(network, 0, 20) == pytest.approx((10, 30))
    assert mbit_s(network, 20, 40) == pytest.approx((1, 3))
    assert mbit_s(network, 40, 500) == pytest.approx((10, 30))


def test_outage_is_lte_without_a_link_for_10_s_and_once_more_for_2_s() -> None:
    network = profile("outage")
    assert network.outages == OUTAGES == ((20, 30), (32, 34))
    for start, end in OUTAGES:
        assert mbit_s(network, start, end) == (0, 0)
    assert mbit_s(network, 0, 20) == mbit_s(network, 30, 32) == pytest.approx((10, 30))
    assert mbit_s(network, 34, 500) == pytest.approx((10, 30))


RECORDED = {
    # Up: mean, P5, P50, P95 of the rate over 1 s in Mbit/s, gaps of 1 s and longer, the longest in s.
    "trace-vzw": (5.95, 1.15, 5.65, 11.6, 1, 1.7),
    "trace-umts": (0.94, 0.06, 1.07, 1.43, 23, 5.8),
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", RECORDED)
def test_a_generated_trace_is_like_the_recorded_one(name: str, seed: int) -> None:
    mean, p5, p50, p95, gaps, longest_s = RECORDED[name]
    capacity = profile(name, seed).up.capacity
    end_s = {"trace-vzw": 140, "trace-umts": 931}[name]
    carried = [capacity.carried_bytes(second - 1e-4) * 8e-6 for second in range(end_s + 1)]
    rates = [after - before for before, after in itertools.pairwise(carried)]
    shares = statistics.quantiles(rates, n=20)
    assert statistics.mean(rates) == pytest.approx(mean, rel=0.05)
    assert shares[0] == pytest.approx(p5, rel=0.1, abs=0.03)
    assert shares[9] == pytest.approx(p50, rel=0.05)
    assert shares[18] == pytest.approx(p95, rel=0.05)
    assert statistics.correlation(rates[:-1], rates[1:]) == pytest.approx(0.78, abs=0.1)
    moments, at_s = [0.0], 0.0
    while at_s < end_s - 1:
        at_s = capacity.open_s(at_s + 0.001)
        moments.append(at_s)
    silences_s = [after - before for before, after in itertools.pairwise(moments)]
    assert sum(silence_s >= 1 for silence_s in silences_s) == pytest.approx(gaps, abs=2)
    assert max(silences_s) == pytest.approx(longest_s, abs=0.3)


@pytest.mark.parametrize("name", RECORDED)
def test_the_same_seed_generates_the_same_trace_and_another_one_another(name: str) -> None:
    assert round_trips_ms(profile(name, 1), 60) == round_trips_ms(profile(name, 1), 60)
    assert round_trips_ms(profile(name, 1), 60) != round_trips_ms(profile(name, 2), 60)


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_can_be_used_anew_with_the_same_result(name: str) -> None:
    network = profile(name, 4)
    assert network.name == name
    assert round_trips_ms(network, 30) == round_trips_ms(network, 30)


def test_recorded_traces_are_read_for_one_direction_or_for_both(tmp_path: Path) -> None:
    up, down = tmp_path / "up", tmp_path / "down"
    up.write_text("1\n")
    down.write_text("2\n")
    assert mbit_s(profile(f"mahimahi:{up}"), 1, 100) == pytest.approx((12, 30), rel=0.01)
    both = profile(f"mahimahi:{up},{down}")
    assert mbit_s(both, 1, 100) == pytest.approx((12, 6), rel=0.01)
    assert statistics.median(round_trips_ms(both, 20)) == pytest.approx(60, abs=4)


def test_a_mistyped_name_is_told_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"There is no network 'lte-waek': did you mean 'lte-weak'\? choose one of"):
        profile("lte-waek")
    with pytest.raises(ConfigError, match="There is no network 'zzz': choose one of wifi, lte, lte-weak"):
        profile("zzz")


@pytest.mark.parametrize("name", ["mahimahi:", "mahimahi:a,b,c", "mahimahi:a,"])
def test_a_recorded_network_without_its_files_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match="names no traces: write mahimahi:UP_FILE"):
        profile(name)
