"""The group ``in-time``: decisions, schedules and fallbacks, whatever the network does."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from foveate.bench import fleet, gain, gate, network_runs, scheduling
from foveate.bench.main_job import Inputs
from foveate.bench.playlist import BOTTLE, ONE_BY_ONE, VTEST
from foveate.bench.report import Report

Say = Callable[[str], None]
MISSED_SHARE = 0.01
"""More late frames than this make a run doubtful."""


def measure(inputs: Inputs, say: Say) -> Report:
    """Measure the group, one part after another. Raises SourceError where a clip is absent.

    The clips are those of the protocol; ``inputs`` says only whether it is to be short.
    """
    for clip in (ONE_BY_ONE, VTEST, BOTTLE):
        clip.require()
    figures: dict[str, float] = {}
    details: dict[str, Any] = {"short": inputs.short}
    for name, part in _parts(inputs.short, say).items():
        say(f"part {name}")
        found, more = part()
        figures.update(found)
        details[name] = more
    return Report(figures, details, tuple(_doubts(figures, details)))


FIGURES = frozenset(
    {
        "gr20", "gr20_random", "gr20_min_confidence", "decision_ms",
        "idle_dropped", "idle_f1_ratio", "vtest_gate_minus_uniform", "gate_ms",
        "sched_08_hit", "sched_13_goodput", "sched_13_fifo", "sched_13_edf", "sched_fairness",
    }
)  # fmt: skip
"""What the parts without a network measure; whatever else they hand back is a detail."""
Part = Callable[[], tuple[Mapping[str, float], Mapping[str, Any]]]


def _parts(short: bool, say: Say) -> dict[str, Part]:
    models = network_runs.load_models(say)
    return {
        "mix": lambda: network_runs.measure_mix(models, short=short, say=say),
        "outage": lambda: network_runs.measure_outage(models, short=short, say=say),
        "wifi": lambda: network_runs.measure_wifi(models, short=short, say=say),
        "gain": lambda: _split(gain.measure(short, say)),
        "gate": lambda: _split(gate.measure(short, say)),
        "scheduling": lambda: _split(scheduling.measure(short, say)),
        "fleet": lambda: _split(fleet.measure(short, say)),
    }


def _split(measured: Mapping[str, float]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Figures, and details."""
    figures = {name: value for name, value in measured.items() if name in FIGURES}
    return figures, {name: value for name, value in measured.items() if name not in FIGURES}


def _doubts(figures: Mapping[str, float], details: Mapping[str, Any]) -> list[str]:
    """What speaks against the figures."""
    doubts = [f"{name} is not a number" for name, value in figures.items() if not math.isfinite(value)]
    for part in ("mix", "outage", "wifi"):
        lost = [run["hit_ratio"] for run in details[part]["runs"] if run["hit_ratio"] < 1 - MISSED_SHARE]
        doubts += [f"{part}: only {share:.1%} of the frames of a run were answered in time" for share in lost]
    return doubts
