"""A real run and a simulation of the same scene, by the same two shares."""

from dataclasses import dataclass
from pathlib import Path

from foveate.bench.accuracy import read_record
from foveate.config.load import Overrides
from foveate.config.settings import for_sources, plan
from foveate.simulation.fleet import Fleet, simulate
from foveate.simulation.scene import Scene
from foveate.simulation.workload import Workload
from pipeline.errors import FoveateError
from pipeline.results import Origin

GAVE_WAY = frozenset({"detector_busy", "edge_late"})
"""Reasons of carried frames that the gate had kept."""
_CLOUD = frozenset({Origin.CLOUD.value, Origin.FUSED.value})


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the ``kept`` frames that passed the gate, the share that was analysed and answered on time; of the analysed
    ones, the share that was answered without the cloud.
    """

    kept: int
    hit_ratio: float
    lambda_edge: float


def real(record: Path) -> Shares:
    """The shares of what ``foveate run --record`` wrote. Raises FoveateError where nothing was analysed."""
    results = read_record(record).values()
    analysed = [result for result in results if result.origin != Origin.CARRIED.value]
    gave_way = sum(result.origin == Origin.CARRIED.value and result.reason in GAVE_WAY for result in results)
    if not analysed:
        raise FoveateError(f"no frame of {record.name} was analysed, so there is nothing to hold a simulation against.")
    kept = len(analysed) + gave_way
    cloud = sum(result.origin in _CLOUD for result in analysed)
    return Shares(kept, sum(result.deadline_met for result in analysed) / kept, 1 - cloud / len(analysed))


def simulated(workload: Workload, overrides: Overrides) -> Shares:
    """The shares of one camera that plays a workload once, with the product's defaults and what overrides them."""
    product = plan(for_sources(["synthetic:"], overrides))
    outcome = simulate(Fleet(product, (Scene.of(workload),), duration_s=workload.duration_s))
    return Shares(outcome.kept, outcome.hit_ratio or 0.0, outcome.lambda_edge or 0.0)
