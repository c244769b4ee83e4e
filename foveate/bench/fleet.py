"""The simulator's own figures: how fast it is with a thousand cameras, and how near it comes to a real run."""

from collections.abc import Callable, Mapping

import msgspec

from foveate.bench import network_runs
from foveate.bench.agreement import on_virtual_time
from foveate.bench.playlist import ONLY_VTEST, VTEST, Part, Playlist
from foveate.config.settings import for_sources, plan
from foveate.simulation.fleet import Fleet, simulate
from foveate.simulation.record import CpuClock, record_clip
from foveate.simulation.scene import Scene
from foveate.simulation.workload import Workload, paced
from pipeline.timing import cpu_s

CAMERAS, NODES, WORKERS = 1_000, 50, 10
FPS = 0.5
"""Frames that each gate of the fleet keeps per second."""
BUSY_ONE_IN = 20
"""Of the fleet's cameras one in so many shows the clip; on the others nothing is worth a second look."""
AGREEMENTS: tuple[tuple[str, float | None], ...] = (("wifi", None), ("lte-weak", None), ("wifi", 100.0))
"""Networks and uplink budgets in kbit/s over which simulator and real run are compared, at the default deadline."""
SHORT = Playlist("vtest-short", (Part(VTEST, 400),))


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """Details ``sim_speed_x``, and of all comparisons the widest ``sim_hit_gap`` and ``sim_lambda_gap``."""
    say("simulating a thousand cameras")
    clip = VTEST.require().path
    workload = record_clip(clip, plan(for_sources([str(clip)])), 20.0)
    figures = {"sim_speed_x": speed(workload, FPS, BUSY_ONE_IN, 10.0 if short else 60.0)}
    models, playlist = network_runs.load_models(say, CpuClock()), SHORT if short else ONLY_VTEST
    hit_gaps, lambda_gaps = [], []
    for network, kbps in AGREEMENTS:
        say(f"holding the simulator against the real parts over {network}, {kbps or 'no'} kbit/s budget")
        measured, expected = on_virtual_time(playlist, models, network, {"uplink.uplink_kbps": kbps})
        hit_gaps.append(abs(measured.hit_ratio - expected.hit_ratio))
        lambda_gaps.append(abs(measured.lambda_edge - expected.lambda_edge))
    return figures | {"sim_hit_gap": max(hit_gaps), "sim_lambda_gap": max(lambda_gaps)}


def speed(workload: Workload, fps: float, busy_one_in: int, seconds: float) -> float:
    """Virtual seconds per CPU second of a thousand cameras whose gates keep ``fps`` frames per second."""
    busy = paced(workload, fps * workload.sample_fps / workload.kept_fps)
    quiet = msgspec.structs.replace(
        busy, frames=tuple(msgspec.structs.replace(frame, places=(), mosaic=None) for frame in busy.frames)
    )
    scenes = (Scene.of(busy), *[Scene.of(quiet)] * (busy_one_in - 1))
    product = plan(for_sources(["synthetic:"], {"cameras.offload.full_frame_s": 0.0}))
    began_s = cpu_s()
    simulate(Fleet(product, scenes, CAMERAS, NODES, WORKERS, duration_s=seconds))
    return seconds / (cpu_s() - began_s)


def table(workload: Workload) -> list[dict[str, float]]:
    """The speed by rate and by the share of busy cameras, for the report."""
    return [
        {
            "cameras": CAMERAS,
            "kept_fps": fps,
            "busy_share": 1 / one_in,
            "speed_x": round(speed(workload, fps, one_in, 10), 1),
        }
        for fps in (0.1, 0.5, 2.0)
        for one_in in (1, 5, 20, 100)
    ]
