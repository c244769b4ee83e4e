"""The simulator's word on a sizing."""

import pytest

from foveate.capacity.check import check, way_of
from foveate.capacity.sizing import Demand
from pipeline.errors import ConfigError
from tests.support.workloads import product, workload


def test_a_network_profile_is_a_round_trip_with_jitter_and_a_rate() -> None:
    way = way_of("lte")
    assert way.rtt_ms == pytest.approx(54.0)
    assert way.jitter_ms == pytest.approx(15.0)
    assert way.mbit_s == pytest.approx(10.0)


def test_an_unknown_network_is_told_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match="did you mean 'lte'"):
        way_of("lt")


def test_what_the_formula_needs_is_what_the_simulator_finds_enough() -> None:
    checked = check(Demand(20, 5.0, 200.0), workload(), None, product())
    assert checked.met, checked.missed
    assert checked.sizing == checked.formula
    assert checked.outcome is not None
    for part, busy in zip(
        checked.formula.parts, (checked.outcome.edge_utilisation, checked.outcome.worker_utilisation), strict=True
    ):
        assert busy == pytest.approx(part.utilisation, abs=0.05)


def test_a_large_fleet_is_simulated_in_part_with_the_same_load_on_each_node() -> None:
    checked = check(Demand(5_000, 0.2, 200.0), workload(), None, product())
    assert checked.cameras < 1_000
    assert checked.outcome is not None
    assert checked.outcome.edge_utilisation == pytest.approx(checked.formula.parts[0].utilisation, abs=0.05)


def test_what_cannot_be_met_is_not_simulated() -> None:
    checked = check(Demand(10, 5.0, 25.0), workload(), None, product())
    assert (checked.met, checked.outcome) == (False, None)
    assert "too slow" in checked.missed
