"""``foveate simulate record | run``."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from foveate.config.load import Overrides
from foveate.config.settings import for_sources, plan
from foveate.plan import Plan
from foveate.simulation.fleet import Fleet, simulate
from foveate.simulation.outcome import Outcome
from foveate.simulation.record import record_clip
from foveate.simulation.scene import Scene
from foveate.simulation.workload import load, mean, save
from pipeline.timing import cpu_s

app = typer.Typer(no_args_is_help=True, help="Simulate fleets of cameras with the real decisions, on virtual time.")


@app.command()
def record(
    clip: Annotated[Path, typer.Argument(metavar="CLIP", help="A video of the kind of scene that is to be simulated.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="Where the workload goes.")],
    seconds: Annotated[float | None, typer.Option(min=1, help="Only so much of the clip.")] = None,
    sample_fps: Annotated[float, typer.Option(min=0.1, help="Frames that are due per second.")] = 5.0,
    uplink_kbps: Annotated[float | None, typer.Option(min=1, help="The uplink budget to be simulated.")] = None,
) -> None:
    """Record what the frames of a clip ask of the system, with times measured on this machine."""
    workload = record_clip(
        clip, settings_of(clip, {"cameras.sample_fps": sample_fps, "uplink.uplink_kbps": uplink_kbps}), seconds
    )
    save(workload, out)
    typer.echo(
        f"{workload.captured} frames, {workload.sampled} due, {len(workload.frames)} analysed; small model "
        f"{mean([f.edge_ms for f in workload.frames]):.1f} ms, larger model on a mosaic "
        f"{mean([f.mosaic.infer_ms for f in workload.frames if f.mosaic]):.1f} ms"
    )


@app.command()
def run(  # noqa: PLR0913 - one parameter per option
    workloads: Annotated[list[Path], typer.Argument(metavar="WORKLOAD...", help="Shared out to the cameras in turn.")],
    cameras: Annotated[int, typer.Option(min=1)] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Edge nodes, each with a small model and a link.")] = 1,
    workers: Annotated[int, typer.Option(min=1)] = 1,
    network: Annotated[str | None, typer.Option(help="A network profile between nodes and workers.")] = None,
    deadline_ms: Annotated[float, typer.Option(min=1)] = 200.0,
    uplink_kbps: Annotated[float | None, typer.Option(min=1, help="Uplink budget of each node in kbit/s.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How long, on virtual time.")] = 60.0,
    seed: Annotated[int, typer.Option()] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON.")] = False,
) -> None:
    """Simulate a fleet and print what it came to."""
    product = settings_of(None, {"cameras.deadline_ms": deadline_ms, "uplink.uplink_kbps": uplink_kbps})
    scenes = tuple(Scene.of(load(path)) for path in workloads)
    fleet = Fleet(product, scenes, cameras, nodes, workers, network, duration_s=seconds, seed=seed)
    began_s = cpu_s()
    outcome = simulate(fleet)
    speed = seconds / max(cpu_s() - began_s, 1e-9)
    if as_json:
        typer.echo(json.dumps({**asdict(outcome), "speed": round(speed, 1)}, indent=2))
    else:
        _show(outcome, speed)


def settings_of(clip: Path | None, overrides: Overrides) -> Plan:
    """What ``foveate run`` would start for a clip, or for any camera."""
    return plan(for_sources(["synthetic:" if clip is None else str(clip)], overrides))


def _show(outcome: Outcome, speed: float) -> None:
    table = Table(box=box.SIMPLE, show_header=False)
    finals = ", ".join(f"{count} {origin}" for origin, count in outcome.finals.items())
    table.add_row("frames", f"{outcome.kept} kept by the gates in {outcome.duration_s:.0f} s: {finals}")
    table.add_row("in time", "-" if outcome.hit_ratio is None else f"{outcome.hit_ratio:.2%} analysed and answered")
    table.add_row("edge alone", "-" if outcome.lambda_edge is None else f"{outcome.lambda_edge:.1%} (lambda)")
    latency = ", ".join(
        f"{name.upper()} {value:.0f}" for name, value in outcome.latency_ms.items() if value is not None
    )
    table.add_row("latency", f"{latency} ms")
    table.add_row("uplink", f"{outcome.uplink_kbps:.0f} kbit/s in all, {outcome.asked_per_s:.1f} answers per second")
    busy = f"small models {outcome.edge_utilisation:.0%}, workers {outcome.worker_utilisation:.0%}"
    table.add_row("busy", busy)
    table.add_row("speed", f"{speed:.0f} times real time on one core, {outcome.events} events")
    Console().print(table)
