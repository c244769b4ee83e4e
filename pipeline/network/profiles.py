"""Networks by name, for measurements that others can repeat."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipeline.errors import ConfigError
from pipeline.network.cellular import (
    TMOBILE_UMTS_DOWN,
    TMOBILE_UMTS_UP,
    VERIZON_LTE_DOWN,
    VERIZON_LTE_UP,
    CellStatistics,
    generate,
)
from pipeline.network.link import Epoch, Link, LinkSettings
from pipeline.network.mahimahi import read_trace
from pipeline.network.rate import Capacity, Span, SteppedRate, constant, interrupted

_MBIT_BYTES = 1e6 / 8
MAHIMAHI = "mahimahi:"
MAHIMAHI_RTT_S = 0.06
MAHIMAHI_DOWN_MBIT_S = 30.0
OUTAGES: tuple[Span, ...] = ((20.0, 30.0), (32.0, 34.0))
"""Of the profile ``outage``: 10 s without a link, 2 s with one, and 2 s without it once more."""
STEP_S = 20.0


@dataclass(frozen=True, slots=True)
class Profile:
    """A network: its two directions and, for those that have them, the times without a link since its beginning.

    ``rtt_s`` is the mean round trip of something small on the idle network.
    """

    name: str
    seed: int
    rtt_s: float
    up: LinkSettings
    down: LinkSettings
    outages: tuple[Span, ...] = ()

    def links(self, starts_at_s: float | None = None) -> tuple[Link, Link]:
        """Up and down, anew; their common time starts at a given moment, else with the first byte."""
        epoch = Epoch(starts_at_s)
        return Link(self.up, f"{self.seed}/up", epoch), Link(self.down, f"{self.seed}/down", epoch)


@dataclass(frozen=True, slots=True)
class _Radio:
    """A row of the table: rates in Mbit/s, round trip and its standard deviation in ms, share of lost segments."""

    up_mbit_s: float
    down_mbit_s: float
    rtt_ms: float
    jitter_ms: float
    loss: float


_WIFI = _Radio(30, 60, 8, 3, 0.001)
_LTE = _Radio(10, 30, 50, 15, 0.005)
_LTE_WEAK = _Radio(2, 6, 80, 30, 0.01)
_3G = _Radio(0.9, 2, 150, 60, 0.01)


def profile(name: str, seed: int = 0) -> Profile:
    """The network of a name, or ``mahimahi:UP_FILE[,DOWN_FILE]``, which is read from the disk. Raises ConfigError.

    With a file for the uplink alone the downlink has 30 Mbit/s; with either the round trip is 60 ms.
    """
    if name.startswith(MAHIMAHI):
        return _recorded(name, seed)
    if name not in PROFILES:
        near = difflib.get_close_matches(name, PROFILES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"There is no network {name!r}: {hint}choose one of {', '.join(PROFILES)}, or {MAHIMAHI}UP_FILE,DOWN_FILE."
        )
    return PROFILES[name](name, seed)


def in_folder(name: str, folder: Path) -> str:
    """The same network, with the files of traces that are named relative to a folder."""
    if not name.startswith(MAHIMAHI):
        return name
    files = name.removeprefix(MAHIMAHI).split(",")
    return MAHIMAHI + ",".join(str(folder / Path(file).expanduser()) if file else "" for file in files)


def _steady(radio: _Radio, name: str, seed: int) -> Profile:
    up, down = constant(radio.up_mbit_s * _MBIT_BYTES), constant(radio.down_mbit_s * _MBIT_BYTES)
    return _profile(radio, name, seed, (up, down))


def _stepping(radio: _Radio, name: str, seed: int) -> Profile:
    """A tenth of the rate from 20 s to 40 s, in both directions."""
    up, down = (
        SteppedRate([(0.0, rate), (STEP_S, rate / 10), (2 * STEP_S, rate)])
        for rate in (radio.up_mbit_s * _MBIT_BYTES, radio.down_mbit_s * _MBIT_BYTES)
    )
    return _profile(radio, name, seed, (up, down))


def _failing(radio: _Radio, name: str, seed: int) -> Profile:
    up, down = (
        interrupted([(0.0, rate)], OUTAGES) for rate in (radio.up_mbit_s * _MBIT_BYTES, radio.down_mbit_s * _MBIT_BYTES)
    )
    return _profile(radio, name, seed, (up, down), OUTAGES)


def _profile(
    radio: _Radio, name: str, seed: int, capacities: tuple[Capacity, Capacity], outages: tuple[Span, ...] = ()
) -> Profile:
    rtt_s = radio.rtt_ms / 1000
    # Half of the delay, and of its variance, is in each direction.
    up, down = (
        LinkSettings(capacity, rtt_s / 2, radio.jitter_ms / 1000 / 2**0.5, radio.loss, rtt_s) for capacity in capacities
    )
    return Profile(name, seed, rtt_s, up, down, outages)


def _cellular(up: CellStatistics, down: CellStatistics, rtt_s: float, name: str, seed: int) -> Profile:
    return _traced(name, seed, rtt_s, generate(up, seed, f"{name}/up"), generate(down, seed, f"{name}/down"))


def _recorded(name: str, seed: int) -> Profile:
    files = name.removeprefix(MAHIMAHI).split(",")
    if len(files) > 2 or not all(files):
        raise ConfigError(
            f"The network {name!r} names no traces: write {MAHIMAHI}UP_FILE or {MAHIMAHI}UP_FILE,DOWN_FILE."
        )
    up = read_trace(Path(files[0]))
    down = read_trace(Path(files[1])) if len(files) > 1 else constant(MAHIMAHI_DOWN_MBIT_S * _MBIT_BYTES)
    return _traced(name, seed, MAHIMAHI_RTT_S, up, down)


def _traced(name: str, seed: int, rtt_s: float, up: Capacity, down: Capacity) -> Profile:
    """A trace has the waits and losses of its radio in it: nothing is added but the delay, nothing is saved up."""
    first, second = (LinkSettings(capacity, rtt_s / 2, recovery_s=rtt_s, burst_bytes=0) for capacity in (up, down))
    return Profile(name, seed, rtt_s, first, second)


PROFILES: dict[str, Callable[[str, int], Profile]] = {
    "wifi": partial(_steady, _WIFI),
    "lte": partial(_steady, _LTE),
    "lte-weak": partial(_steady, _LTE_WEAK),
    "3g": partial(_steady, _3G),
    "step": partial(_stepping, _LTE),
    "outage": partial(_failing, _LTE),
    "trace-vzw": partial(_cellular, VERIZON_LTE_UP, VERIZON_LTE_DOWN, 0.06),
    "trace-umts": partial(_cellular, TMOBILE_UMTS_UP, TMOBILE_UMTS_DOWN, 0.12),
}
