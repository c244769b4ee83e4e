"""The formulas of queueing theory that sizing uses. Rates are per second, times in seconds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import gammaincinv


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """The mean of a service time, and its squared coefficient of variation (variance / mean squared)."""

    mean_s: float
    variation: float = 0.0

    @classmethod
    def measured(cls, samples_s: Sequence[float]) -> "ServiceTime":
        """From samples. Raises ValueError without any."""
        if not samples_s:
            raise ValueError("a service time needs at least one sample")
        mean_s = sum(samples_s) / len(samples_s)
        variance = sum((sample - mean_s) ** 2 for sample in samples_s) / len(samples_s)
        return cls(mean_s, variance / mean_s**2 if mean_s > 0 else 0.0)

    @property
    def duration(self) -> "Duration":
        """As a time with a variance."""
        return Duration(self.mean_s, self.variation * self.mean_s**2)


def utilisation(rate: float, service: ServiceTime, servers: int = 1) -> float:
    """The share of the servers' time that the work takes: rho = rate * service / servers."""
    return rate * service.mean_s / servers


def mean_wait_s(rate: float, service: ServiceTime, servers: int = 1, arrival_variation: float = 1.0) -> float:
    """The mean wait before service; infinite from a utilisation of 1 on.

    Allen and Cunneen's approximation for GI/G/c: that of M/M/c times the mean of both squared coefficients of variation
    (A. O. Allen, Probability, Statistics, and Queueing Theory, 2nd edition 1990, section 5.5), with Sakasegawa's closed
    form for M/M/c (H. Sakasegawa, Annals of the Institute of Statistical Mathematics 29, 1977). Exact for M/M/1, M/D/1
    and M/G/1. ``arrival_variation`` is 1 for Poisson arrivals; cameras of one rate with phases of their own come less
    unevenly, so 1 is careful.
    """
    rho = utilisation(rate, service, servers)
    if rho >= 1:
        return math.inf
    single = math.pow(rho, math.sqrt(2 * (servers + 1)) - 1) / (servers * (1 - rho)) * service.mean_s
    return (arrival_variation + service.variation) / 2 * single


@dataclass(frozen=True, slots=True)
class Duration:
    """A random time by its mean and its variance."""

    mean_s: float
    variance_s2: float = 0.0

    def __add__(self, other: "Duration") -> "Duration":
        """One after another, independently."""
        return Duration(self.mean_s + other.mean_s, self.variance_s2 + other.variance_s2)

    def percentile_s(self, share: float) -> float:
        """What a ``share`` (0 to 1) does not exceed, as of a gamma distribution with this mean and variance."""
        if self.variance_s2 <= 0 or not math.isfinite(self.mean_s):
            return self.mean_s
        scale_s = self.variance_s2 / self.mean_s
        return float(gammaincinv(self.mean_s / scale_s, share)) * scale_s


def wait(rate: float, service: ServiceTime, servers: int = 1) -> Duration:
    """The wait before service. Work waits with probability rho, and then for an exponential time.

    Exact for M/M/1, and the heavy-traffic limit of others (J. F. C. Kingman, Mathematical Proceedings of the Cambridge
    Philosophical Society 57, 1961).
    """
    rho, mean_s = utilisation(rate, service, servers), mean_wait_s(rate, service, servers)
    if rho <= 0 or not math.isfinite(mean_s):
        return Duration(mean_s, 0.0)
    return Duration(mean_s, mean_s**2 * (2 / rho - 1))


def length(rate: float, wait_s: float) -> float:
    """How many are in a queue on average: Little's law, L = rate * W."""
    return rate * wait_s
