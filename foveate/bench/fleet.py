"""The simulator's own figures: how fast it is with a thousand cameras, and how near it comes to a real run."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from foveate.bench.agreement import Shares, real, simulated
from foveate.bench.clip import cut
from foveate.bench.main_job import DEFAULT_CLIP, SAMPLE_CLIP
from foveate.bench.product import run_product
from foveate.config.settings import for_sources, plan
from foveate.simulation.fleet import Fleet, simulate
from foveate.simulation.record import record_clip
from foveate.simulation.scene import Scene
from foveate.simulation.workload import Workload, paced
from pipeline.timing import cpu_s

CAMERAS, NODES, WORKERS = 1_000, 50, 10
FPS = 0.5
"""Frames that each gate of the fleet keeps per second."""
BUSY_ONE_IN = 20
"""Of the fleet's cameras one in so many shows the clip; on the others nothing is worth a second look."""
KBPS = 100.0
DEADLINE_MS = 1000.0
"""Wide, so that a busy machine is not what the shares of real run and simulation differ by."""
FRAMES, SHORT_FRAMES = 795, 450


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """Figures ``sim_speed_x``, ``sim_hit_gap`` and ``sim_lambda_gap``. Nothing else should run meanwhile."""
    say("simulating a thousand cameras")
    clip = DEFAULT_CLIP if DEFAULT_CLIP.exists() else SAMPLE_CLIP
    workload = record_clip(clip, plan(for_sources([str(clip)])), 20.0)
    figures = {"sim_speed_x": speed(workload, FPS, BUSY_ONE_IN, 20.0 if short else 60.0)}
    gaps = []
    for kbps in (None, KBPS):
        say(f"holding the simulator against a real run, {kbps or 'no'} kbit/s budget")
        measured, expected = agree(clip, SHORT_FRAMES if short else FRAMES, kbps)
        gaps.append((abs(measured.hit_ratio - expected.hit_ratio), abs(measured.lambda_edge - expected.lambda_edge)))
    figures["sim_hit_gap"] = max(hit for hit, _ in gaps)
    figures["sim_lambda_gap"] = max(share for _, share in gaps)
    return figures


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


def agree(clip: Path, frames: int, kbps: float | None) -> tuple[Shares, Shares]:
    """A real run over the first frames of a clip, and its simulation."""
    overrides = {"cameras.deadline_ms": DEADLINE_MS, "uplink.uplink_kbps": kbps}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        part, settings = folder / f"part{clip.suffix}", folder / "run.yaml"
        cut(clip, frames, part)
        settings.write_text(json.dumps(_configuration(part, kbps)))
        run = run_product(["-c", str(settings)], folder / "run")
        workload = record_clip(part, plan(for_sources([str(part)], overrides)))
        return real(run.record_file), simulated(workload, overrides)


def _configuration(clip: Path, kbps: float | None) -> dict[str, Any]:
    camera = {"source": str(clip), "realtime": True, "deadline_ms": DEADLINE_MS, "route": "edge"}
    return {"cameras": [camera], "uplink": {"uplink_kbps": kbps}}
