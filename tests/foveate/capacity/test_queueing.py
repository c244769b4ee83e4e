"""Queueing formulas against what is known exactly."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.capacity.queueing import Duration, ServiceTime, length, mean_wait_s, utilisation, wait

EXPONENTIAL = 1.0
loads = st.floats(0.05, 0.95)


def erlang_c_wait_s(rate: float, service_s: float, servers: int) -> float:
    """The mean wait of M/M/c by Erlang's C formula."""
    offered = rate * service_s
    terms = [offered**n / math.factorial(n) for n in range(servers)]
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(terms) + last) * service_s / (servers - offered)


@given(loads)
def test_one_server_with_exponential_service_waits_as_m_m_1_does(rho: float) -> None:
    assert mean_wait_s(rho / 0.02, ServiceTime(0.02, EXPONENTIAL)) == pytest.approx(0.02 * rho / (1 - rho))


@given(loads)
def test_a_constant_service_time_halves_the_wait(rho: float) -> None:
    constant, exponential = (mean_wait_s(rho, ServiceTime(1.0, v)) for v in (0.0, EXPONENTIAL))
    assert constant == pytest.approx(exponential / 2)


@pytest.mark.parametrize("servers", [2, 4, 8])
@pytest.mark.parametrize("rho", [0.5, 0.7, 0.9])
def test_several_servers_wait_nearly_as_erlang_says(servers: int, rho: float) -> None:
    rate, service = rho * servers / 0.02, ServiceTime(0.02, EXPONENTIAL)
    exact = erlang_c_wait_s(rate, 0.02, servers)
    assert mean_wait_s(rate, service, servers) == pytest.approx(exact, rel=0.05, abs=0.02 * 0.04)


def test_more_work_than_the_servers_can_do_waits_for_ever() -> None:
    assert mean_wait_s(51.0, ServiceTime(0.02)) == math.inf
    assert wait(51.0, ServiceTime(0.02)).percentile_s(0.98) == math.inf


@given(loads)
def test_the_wait_has_the_variance_of_m_m_1(rho: float) -> None:
    found = wait(rho, ServiceTime(1.0, EXPONENTIAL))
    assert found.variance_s2 == pytest.approx(rho * (2 - rho) / (1 - rho) ** 2)


@given(st.floats(0.01, 10))
def test_a_duration_whose_deviation_is_its_mean_has_exponential_percentiles(mean_s: float) -> None:
    assert Duration(mean_s, mean_s**2).percentile_s(0.98) == pytest.approx(-mean_s * math.log(0.02))


def test_a_duration_without_variance_is_its_mean() -> None:
    assert Duration(0.3).percentile_s(0.99) == 0.3


def test_durations_one_after_another_add_up_means_and_variances() -> None:
    assert Duration(1.0, 2.0) + Duration(3.0, 4.0) == Duration(4.0, 6.0)


def test_measured_times_have_their_mean_and_their_variation() -> None:
    assert ServiceTime.measured([1.0, 3.0]) == ServiceTime(2.0, 0.25)
    with pytest.raises(ValueError, match="at least one"):
        ServiceTime.measured([])


def test_utilisation_and_length_are_products() -> None:
    assert utilisation(30.0, ServiceTime(0.02), 2) == pytest.approx(0.3)
    assert length(30.0, 0.1) == pytest.approx(3.0)
