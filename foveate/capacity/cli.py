"""``foveate plan``."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from foveate.capacity.check import Checked, check, way_of
from foveate.capacity.sizing import MOST_UTILISATION, Demand, Load, Sizing, size
from foveate.simulation.cli import settings_of
from foveate.simulation.record import record_clip
from foveate.simulation.workload import Workload, load, with_times
from pipeline.errors import ConfigError

SAMPLE_CLIP = Path(__file__).resolve().parents[2] / "sample_videos/plaza.mp4"
CALIBRATION_S = 20.0
PEAKS = (1.0, 1.5, 2.0, 3.0)


def plan_command(  # noqa: PLR0913 - one parameter per option
    cameras: Annotated[int, typer.Option(min=1, help="How many cameras.")],
    fps: Annotated[float, typer.Option(min=0.01, help="Frames of each that are due per second.")] = 5.0,
    deadline_ms: Annotated[float, typer.Option(min=1, help="An answer at the latest so long after capture.")] = 200.0,
    share: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Of the frames, so many in time.")] = 0.98,
    peak: Annotated[float, typer.Option(min=1, help="How much more there is in a peak; all is sized for it.")] = 1.0,
    network: Annotated[str | None, typer.Option(help="A network profile between nodes and workers.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A workload of foveate simulate record, or a video.")
    ] = None,
    edge_ms: Annotated[float | None, typer.Option(min=0.01, help="What the small model takes, if not as here.")] = None,
    cloud_ms: Annotated[
        float | None, typer.Option(min=0.01, help="What the larger model takes for a mosaic, if not as here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Say what a number of cameras needs: edge nodes, workers, links; by formula, and checked by the simulator."""
    workload = with_times(_workload(source), edge_ms, cloud_ms)
    product = settings_of(None, {"cameras.deadline_ms": deadline_ms})
    demand = Demand(cameras, fps, deadline_ms, share, peak, product.agent.settle_margin_ms)
    checked = check(demand, workload, network, product)
    peaks = {factor: size(replace(demand, peak=factor), checked.load, way_of(network)) for factor in PEAKS}
    if as_json:
        typer.echo(json.dumps({"demand": asdict(demand), **asdict(checked), "peaks": _brief(peaks)}, indent=2))
    else:
        show(demand, checked, peaks, Console())
    if not checked.met:
        raise typer.Exit(2)


def _workload(source: Path | None) -> Workload:
    """A recorded workload, or a small calibration run on a clip."""
    if source is not None and source.suffix == ".json":
        return load(source)
    clip = source or SAMPLE_CLIP
    if not clip.exists():
        raise ConfigError("there is nothing to measure service times on: name a workload or a video with --from.")
    typer.echo(f"measuring service times on {CALIBRATION_S:.0f} s of {clip.name} ...", err=True)
    return record_clip(clip, settings_of(clip, {}), CALIBRATION_S)


def _brief(peaks: dict[float, Sizing]) -> dict[str, Any]:
    return {
        f"{factor:g}": {"nodes": s.nodes, "workers": s.workers, "link_mbit_s": round(s.link_mbit_s, 2)}
        for factor, s in peaks.items()
    }


def show(demand: Demand, checked: Checked, peaks: dict[float, Sizing], console: Console) -> None:
    """Print the formula with its numbers, the sizing, and what the simulator says."""
    for line in formulas(demand, checked.load, checked.formula):
        console.print(line, highlight=False, soft_wrap=True)
    console.print(_table(checked))
    rows = Table("peak factor", "edge nodes", "workers", "Mbit/s per node", box=box.SIMPLE)
    for factor, sizing in peaks.items():
        counts = (str(sizing.nodes), str(sizing.workers), f"{sizing.link_mbit_s:.1f}") if sizing.nodes else ("-",) * 3
        rows.add_row(f"{factor:g}", *counts)
    console.print(rows)
    target = f"{demand.share:.1%} within {demand.deadline_ms:.0f} ms"
    console.print(f"{target}: {'met' if checked.met else 'not met: ' + checked.missed}", soft_wrap=True)


def formulas(demand: Demand, load: Load, sizing: Sizing) -> list[str]:
    """The formulas with the numbers put in, one line each."""
    frames = f"{demand.cameras} cameras x {demand.fps:g}/s x {demand.peak:g} peak x {load.kept:.2f} kept"
    lines = []
    for part in sizing.parts:
        at_edge = part.name == "edge node"
        work, service = (frames, load.edge) if at_edge else (f"{frames} x {load.asked:.2f} asked", load.cloud)
        rho = f"rho = N r s / k = {work} x {part.service_ms:.1f} ms / {part.count} = {part.utilisation:.2f}"
        wait = f"W = (1 + {service.variation:.2f}) / 2 x rho / (1 - rho) x s = {part.wait_ms:.1f} ms"
        queue = f"L = rate x W = {part.rate_per_s:.1f}/s x {part.wait_ms:.1f} ms = {part.queue_length:.2f}"
        lines.append(f"{part.name}: {rho}, at most {MOST_UTILISATION:g}")
        lines.append(f"  {wait} (Allen-Cunneen, Sakasegawa; each has a queue of its own)")
        lines.append(f"  {queue} waiting (Little)")
    if sizing.workers:
        rate = sizing.parts[0].rate_per_s * load.asked
        full = f"{sizing.link_utilisation:.0%} of {sizing.link_mbit_s:.1f} Mbit/s"
        lines.append(f"link: {load.question_bytes / 1000:.1f} kB x {rate:.1f}/s of a node are {full}")
    return lines


def _table(checked: Checked) -> Table:
    formula, sizing, outcome = checked.formula, checked.sizing, checked.outcome
    table = Table("", "formula", "checked by the simulator", box=box.SIMPLE)
    table.add_row("edge nodes", str(formula.nodes), str(sizing.nodes))
    table.add_row("workers", str(formula.workers), str(sizing.workers))
    table.add_row("Mbit/s per node", f"{formula.link_mbit_s:.1f}", f"{sizing.link_mbit_s:.1f}")
    for index, part in enumerate(formula.parts):
        busy = None if outcome is None else (outcome.edge_utilisation, outcome.worker_utilisation)[index]
        table.add_row(f"busy, each {part.name}", f"{part.utilisation:.0%}", "-" if busy is None else f"{busy:.0%}")
    edge, cloud = f"{formula.edge_ms:.0f}", f"{formula.cloud_ms:.0f}"
    p99 = "-" if outcome is None else f"P99 {outcome.latency_ms['p99'] or 0:.0f}"
    table.add_row("answer in ms (edge, cloud)", f"{edge}, {cloud}", p99)
    table.add_row("lambda", f"{formula.lambda_edge:.2f}", _number(outcome.lambda_edge if outcome else None))
    table.add_row("analysed in time", "-", _number(outcome.hit_ratio if outcome else None, "{:.1%}"))
    table.add_row("cameras simulated", "-", str(checked.cameras))
    return table


def _number(value: float | None, form: str = "{:.2f}") -> str:
    return "-" if value is None else form.format(value)
