"""A real run and a simulation of the same scene, by the same two shares.

The real run is one of real processes, whose deadline has to be wide where the machine has other work, or that of the
real agent and the real worker on virtual time, where simulation and run draw from the same service times.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import msgspec

from edge_agent.capture.settings import CaptureSettings
from foveate.bench.accuracy import read_record
from foveate.bench.playlist import Playlist, shown
from foveate.bench.service_times import ServiceTimes
from foveate.bench.virtual import CAMERA, Models, Scenario, play
from foveate.config.load import Overrides
from foveate.config.settings import for_sources, plan
from foveate.simulation.fleet import Fleet, simulate
from foveate.simulation.record import CpuClock, Recorder
from foveate.simulation.scene import Scene
from foveate.simulation.workload import Shot, Workload
from pipeline.errors import FoveateError
from pipeline.frames import Frame, FrameKey
from pipeline.network.profiles import profile
from pipeline.results import Origin, Result

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
    return _shares(read_record(record).values(), record.name)


def _shares(shown_results: Iterable[Result], name: str) -> Shares:
    results = tuple(shown_results)
    analysed = [result for result in results if result.origin != Origin.CARRIED.value]
    gave_way = sum(result.origin == Origin.CARRIED.value and result.reason in GAVE_WAY for result in results)
    if not analysed:
        raise FoveateError(f"no frame of {name} was analysed, so there is nothing to hold a simulation against.")
    kept = len(analysed) + gave_way
    cloud = sum(result.origin in _CLOUD for result in analysed)
    return Shares(kept, sum(result.deadline_met for result in analysed) / kept, 1 - cloud / len(analysed))


def simulated(workload: Workload, overrides: Overrides) -> Shares:
    """The shares of one camera that plays a workload once, with the product's defaults and what overrides them."""
    product = plan(for_sources(["synthetic:"], overrides))
    outcome = simulate(Fleet(product, (Scene.of(workload),), duration_s=workload.duration_s))
    return Shares(outcome.kept, outcome.hit_ratio or 0.0, outcome.lambda_edge or 0.0)


def on_virtual_time(
    playlist: Playlist, models: Models, network: str, overrides: Overrides, seed: int = 0
) -> tuple[Shares, Shares]:
    """The shares of the real agent and worker over a modelled network, and those of a simulation of it.

    The small model looks first, as in the simulation.
    """
    product = plan(for_sources(["synthetic:"], overrides))
    agent, capture = product.agent, CaptureSettings(playlist.name, realtime=True)
    camera = replace(agent.cameras[0], name=CAMERA, capture=capture, route="edge")
    run = play(Scenario(playlist, camera, profile(network, seed), seed, uplink=agent.uplink), models)
    frames = (
        Frame(FrameKey(CAMERA, 0, number), image, 0.0, at_s * 1000)
        for number, (at_s, image) in enumerate(shown(playlist))
    )
    recorder = Recorder(camera, agent.uplink, (models.small, models.large), CpuClock())
    workload = with_service_times(recorder.record(frames), models.times, Random(seed))
    scenes = (Scene.of(workload),)
    # In memory nothing takes time on the way but the network.
    outcome = simulate(Fleet(product, scenes, network=network, hop_ms=0.0, duration_s=workload.duration_s, seed=seed))
    expected = Shares(outcome.kept, outcome.hit_ratio or 0.0, outcome.lambda_edge or 0.0)
    return _shares(run.record.values(), playlist.name), expected


def with_service_times(workload: Workload, times: ServiceTimes, rng: Random) -> Workload:
    """The workload with durations that are drawn from measured ones."""

    def shot(recorded: Shot) -> Shot:
        return msgspec.structs.replace(
            recorded,
            encode_ms=times.draw.draw_s(rng) * 1000,
            decode_ms=times.decode.draw_s(rng) * 1000,
            infer_ms=times.cloud_s(recorded.width_px * recorded.height_px, rng) * 1000,
        )

    frames = tuple(
        msgspec.structs.replace(
            frame,
            gate_ms=times.gate.draw_s(rng) * 1000,
            edge_ms=times.edge.draw_s(rng) * 1000,
            mosaic=frame.mosaic and shot(frame.mosaic),
            whole=shot(frame.whole),
            sent=frame.sent and shot(frame.sent),
        )
        for frame in workload.frames
    )
    return msgspec.structs.replace(workload, frames=frames)
