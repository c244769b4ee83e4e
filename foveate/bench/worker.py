"""The group ``worker``: the worker under load, and the three tiers.

Parts that only decide run on virtual time; those whose time matters run real processes one after another, as nothing
else should run beside them. A part that cannot be measured here, for want of a server to compare with, says so and is
left out.
"""

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

from foveate.bench.main_job import Inputs
from foveate.bench.report import Report

Say = Callable[[str], None]

PARTS: Mapping[str, tuple[str, ...]] = {
    "batching": ("sim_batch_gain", "sim_batch_least_lead", "two_workers_gain", "batch_idle_wait_ms"),
    "worker_load": ("batch_goodput_gain", "two_workers_real_gain", "failover_s"),
    "against_triton": ("triton_goodput_ratio_min", "overload_goodput", "overload_goodput_triton"),
    "coalescing": ("coalesce_inferences", "coalesce_p99_ratio"),
    "near_duplicates": ("cache_saved", "cache_f1_loss"),
    "hops": ("hop_ms_embedded", "hop_ms_mosquitto"),
    "tiers": ("tier_regret",),
    "tier_kill": ("tier_kill_degraded_s",),
}
"""Each part, a module of ``foveate.bench`` with a ``measure``, and the figures that it is there for."""


def measure(inputs: Inputs, say: Say) -> Report:
    """Measure the group, one part after another. ``inputs`` says only whether it is to be short.

    Raises SourceError where a clip is absent.
    """
    figures: dict[str, float] = {}
    details: dict[str, Any] = {"short": inputs.short}
    for part, names in PARTS.items():
        say(f"part {part}")
        module = importlib.import_module(f"foveate.bench.{part}")
        measured: Mapping[str, float] = module.measure(inputs.short, say)
        figures |= {name: value for name, value in measured.items() if name in names}
        details[part] = {name: value for name, value in measured.items() if name not in names}
    return Report(figures, details, tuple(_doubts(figures)))


def _doubts(figures: Mapping[str, float]) -> list[str]:
    """What speaks against the figures."""
    doubts = [f"{name} is not a number" for name, value in figures.items() if not math.isfinite(value)]
    for part, names in PARTS.items():
        absent = [name for name in names if name not in figures]
        doubts += [f"{part} did not measure {', '.join(absent)}"] if absent else []
    return doubts
