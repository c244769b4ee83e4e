"""``foveate bench accuracy | run | all``."""

import difflib
import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foveate.bench import main_job
from foveate.bench.accuracy import Accuracy, accuracy, read_record, read_truth
from foveate.bench.main_job import Inputs
from foveate.bench.report import Report, check_writable, command_line, context, write_report
from foveate.load.command import worker_command
from pipeline.errors import ConfigError
from pipeline.metrics.matching import Score
from pipeline.network.profiles import profile

GROUPS = {
    "main": "foveate.bench.main_job",
    "in-time": "foveate.bench.in_time",
    "learn": "foveate.bench.learn",
    "worker": "foveate.bench.worker",
}
"""Every group of figures by its name on the command line, and the module that measures it, loaded when asked for."""

app = typer.Typer(no_args_is_help=True, help="Measure accuracy, latency, throughput and cost.")
app.command("worker")(worker_command)


@app.command("accuracy")
def accuracy_command(
    record: Annotated[Path, typer.Option("--record", help="What foveate run --record wrote.")],
    gt: Annotated[Path, typer.Option("--gt", help="True boxes in MOT format; frames count from 1.")],
    label: Annotated[str, typer.Option("--label", help="Class of the true boxes.")] = "person",
    camera: Annotated[str | None, typer.Option("--camera", help="Which one, where the record has several.")] = None,
    frames: Annotated[int | None, typer.Option("--frames", min=1, help="Score only so many, from the first.")] = None,
) -> None:
    """Score a record against true boxes at IoU 0.5: each frame with the result published for it."""
    scored = accuracy(read_record(record, camera), read_truth(gt, label), label, frames)
    score = scored.score
    typer.echo(f"F1 {score.f1:.4f}, precision {score.precision:.4f}, recall {score.recall:.4f}")
    typer.echo(f"{scored.answered} of {scored.frames} frames have a result; label {label}")
    Console().print(_accuracy_table(scored))


def _accuracy_table(scored: Accuracy) -> Table:
    table = Table("origin", "frames", "right", "wrong", "missed", "precision", "recall", "F1", box=box.SIMPLE)
    rows: list[tuple[str, int, Score]] = [(name, part.frames, part.score) for name, part in scored.by_origin.items()]
    for name, frames, score in [*rows, ("all", scored.frames, scored.score)]:
        counts = (frames, score.true_positives, score.false_positives, score.false_negatives)
        shares = (score.precision, score.recall, score.f1)
        table.add_row(name, *(str(count) for count in counts), *(f"{share:.4f}" for share in shares))
    return table


@app.command("run")
def run_command(
    group: Annotated[str, typer.Argument(metavar="GROUP", help=f"What to measure: {', '.join(GROUPS)}.")],
    json_file: Annotated[Path, typer.Option("--json", metavar="FILE", help="Where the figures go.")],
    short: Annotated[bool, typer.Option("--short", help="Fewer repetitions on the first frames of the clip.")] = False,
    clip: Annotated[Path, typer.Option("--clip", help="The clip to run on.")] = main_job.DEFAULT_CLIP,
    gt: Annotated[Path, typer.Option("--gt", help="Its true boxes in MOT format.")] = main_job.DEFAULT_TRUTH,
    h264_bytes: Annotated[
        float, typer.Option("--h264-bytes-per-frame", min=1, help="The clip's H.264 size, for the comparison.")
    ] = main_job.H264_BYTES_PER_FRAME,
    network: Annotated[
        str | None, typer.Option("--network", help="Group main: run over this modelled network, for example lte.")
    ] = None,
) -> None:
    """Measure a group of figures on this machine; nothing else should run meanwhile."""
    if group not in GROUPS:
        near = difflib.get_close_matches(group, GROUPS, n=1)
        hint = f"did you mean {near[0]}?" if near else "choose one of them."
        raise ConfigError(f"Unknown group {group!r}: there is {', '.join(GROUPS)}; {hint}")
    if network is not None:
        profile(network)  # raises ConfigError on a name that there is not
        if group != "main":
            raise ConfigError(f"the group {group} has its own networks: leave --network out.")
    check_writable(json_file)
    about, console = context(command_line()), Console()
    measure: Callable[[Inputs, Callable[[str], None]], Report] = importlib.import_module(GROUPS[group]).measure
    report = measure(Inputs(clip, gt, h264_bytes, short, network), lambda what: typer.echo(f"{what} ...", err=True))
    write_report(json_file, report, about)
    table = Table("figure", "value", box=box.SIMPLE)
    for name, value in report.figures.items():
        table.add_row(name, f"{value:.4f}")
    console.print(table)
    for warning in report.warnings:
        console.print(Text(f"doubtful: {warning}"))


@app.command("all")
def all_command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where records, plots and pages go.")],
    short: Annotated[bool, typer.Option("--short", help="Minutes instead of hours: a look, not a result.")] = False,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Measure nothing; make the pages from DIR/raw anew.")
    ] = False,
) -> None:
    """Compare Foveate, its parts and its alternatives on the same frames, and write a report."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("The report needs matplotlib for its plots: install it with pip install 'foveate[bench]'.")
    # What follows needs what has just been looked for, and takes a second to load.
    from foveate.bench import full_report
    from foveate.bench.report_page.build import build

    if not redraw:
        check_folder(out)
        about = {**context(command_line()), "short": short}
        extent = full_report.SHORT if short else full_report.OVERNIGHT
        full_report.measure(out / "raw", extent, about, lambda what: typer.echo(f"{what} ...", err=True))
    build(out)
    typer.echo(f"{out / 'report.html'} and {out / 'report.md'}, from the records in {out / 'raw'}")


def check_folder(out: Path) -> None:
    """Make the folder, and raise ConfigError now rather than after hours where nothing can be written to it."""
    try:
        (out / "raw").mkdir(parents=True, exist_ok=True)
        probe = out / "raw" / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"Cannot write to {out} ({error.strerror or error}): name another folder with --out."
        ) from error
