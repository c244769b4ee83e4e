"""The measurement of scheduling offers what it says, and shows what early drop is for."""

from random import Random

import pytest

from foveate.bench.scheduling import CAMERAS, SERVICE_S, Load, run, service_s


@pytest.mark.parametrize("burst", [1.0, 4.0])
def test_a_load_offers_its_share_of_the_capacity_in_the_order_of_time(burst: float) -> None:
    arrivals = Load(0.8, 200.0, burst).arrivals(Random(1))
    assert len(arrivals) * SERVICE_S / 200.0 == pytest.approx(0.8, rel=0.05)
    assert arrivals == sorted(arrivals)
    assert {camera for _, camera in arrivals} == set(range(CAMERAS))


def test_bursts_bring_more_at_a_time() -> None:
    def spread(burst: float) -> float:
        seconds = [0] * 200
        for at_s, camera in Load(0.8, 200.0, burst).arrivals(Random(1)):
            seconds[int(at_s)] += camera == 0
        mean = sum(seconds) / 200
        return sum((count - mean) ** 2 for count in seconds) / 200 / mean

    assert spread(1.0) == pytest.approx(1.0, abs=0.3)
    assert spread(8.0) > 1.5


def test_the_service_time_has_its_mean() -> None:
    rng = Random(1)
    assert sum(service_s(rng) for _ in range(20_000)) / 20_000 == pytest.approx(SERVICE_S, rel=0.02)


def test_past_saturation_early_drop_keeps_the_goodput_that_plain_deadlines_lose() -> None:
    load = Load(1.3, 20.0)
    ours, edf = run("edf_weighted", load, 1), run("edf", load, 1)
    assert ours.goodput > 0.9 > 0.5 > edf.goodput
    assert ours.hopeless_runs == 0 < edf.hopeless_runs
    assert ours.fairness < 2


def test_a_run_is_the_same_for_the_same_seed() -> None:
    load = Load(1.3, 3.0)
    assert run("edf_weighted", load, 1) == run("edf_weighted", load, 1) != run("edf_weighted", load, 2)
