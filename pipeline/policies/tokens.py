"""The uplink budget: one token bucket in bytes per camera, filled from one rate.

A camera's bucket has its weight's share of the rate and of the burst. What a full bucket does not need flows to the
others by weight, so that silence is lent, and nobody's storm takes what another one is due.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Share:
    """One camera's bucket."""

    weight: float
    burst_bytes: float
    level_bytes: float


@dataclass(frozen=True, slots=True)
class SharedBudget:
    """``rate_bytes_s`` bytes per second for all; None is no limit. ``shares`` are the buckets by camera."""

    rate_bytes_s: float | None
    shares: Mapping[str, Share]
    at_s: float

    @classmethod
    def full(
        cls, rate_kbps: float | None, burst_s: float, weights: Mapping[str, float], now_s: float
    ) -> "SharedBudget":
        """Full buckets for a budget in kbit/s that can save up ``burst_s`` seconds; weights are above 0."""
        if rate_kbps is None:
            return cls(None, {}, now_s)
        rate, total = rate_kbps * 1000 / 8, sum(weights.values())
        bursts = {name: rate * burst_s * weight / total for name, weight in weights.items()}
        return cls(rate, {name: Share(weights[name], burst, burst) for name, burst in bursts.items()}, now_s)

    def at(self, now_s: float) -> "SharedBudget":
        """The buckets filled up to ``now_s``."""
        if self.rate_bytes_s is None or now_s <= self.at_s:
            return self
        inflow_bytes = self.rate_bytes_s * (now_s - self.at_s)
        shares = dict(self.shares)
        filling = {name: share for name, share in shares.items() if share.level_bytes < share.burst_bytes}
        while filling and inflow_bytes > 0:
            per_weight = inflow_bytes / sum(share.weight for share in filling.values())
            filled = {n: s for n, s in filling.items() if s.burst_bytes - s.level_bytes <= per_weight * s.weight}
            for name, share in filled.items():
                shares[name] = Share(share.weight, share.burst_bytes, share.burst_bytes)
                inflow_bytes -= share.burst_bytes - share.level_bytes
                del filling[name]
            if not filled:
                for name, share in filling.items():
                    level_bytes = share.level_bytes + per_weight * share.weight
                    shares[name] = Share(share.weight, share.burst_bytes, level_bytes)
                break
        return replace(self, shares=shares, at_s=now_s)

    def paced(self, rate_bytes_s: float | None, burst_s: float, weights: Mapping[str, float]) -> "SharedBudget":
        """The budget at another rate; each bucket is as full as it was."""
        if rate_bytes_s is None:
            return SharedBudget(None, {}, self.at_s)
        fresh = SharedBudget.full(rate_bytes_s * 8 / 1000, burst_s, weights, self.at_s)
        levels = {name: share.burst_bytes * (self.fill(name) or 0.0) for name, share in fresh.shares.items()}
        shares = {name: replace(share, level_bytes=levels[name]) for name, share in fresh.shares.items()}
        return replace(fresh, shares=shares) if self.shares else fresh

    def fill(self, name: str) -> float | None:
        """How full a camera's bucket is, as a share; below zero when overdrawn. None where there is no limit."""
        if self.rate_bytes_s is None:
            return None
        share = self.shares[name]
        return share.level_bytes / share.burst_bytes

    def due_bytes_s(self, name: str) -> float | None:
        """What a camera may send per second while all others do too. None where there is no limit."""
        if self.rate_bytes_s is None:
            return None
        return self.rate_bytes_s * self.shares[name].weight / sum(share.weight for share in self.shares.values())

    def available_bytes(self, name: str) -> float | None:
        """What a camera may send now. None is anything: no limit, or a full bucket, whose burst one may exceed."""
        if self.rate_bytes_s is None:
            return None
        share = self.shares[name]
        return None if share.level_bytes >= share.burst_bytes else share.level_bytes

    def wait_s(self, name: str, size_bytes: float) -> float:
        """The shortest time after which a camera may send so much: that for which nobody else needs anything."""
        if self.rate_bytes_s is None:
            return 0.0
        share = self.shares[name]
        return max(0.0, min(size_bytes, share.burst_bytes) - share.level_bytes) / self.rate_bytes_s

    def take(self, name: str, size_bytes: float) -> "SharedBudget":
        """The budget after a camera's ``size_bytes``; its level may go below zero when an estimate was too low."""
        if self.rate_bytes_s is None:
            return self
        share = self.shares[name]
        return replace(self, shares={**self.shares, name: replace(share, level_bytes=share.level_bytes - size_bytes)})
