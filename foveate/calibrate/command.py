"""``foveate calibrate``: learn about a camera from a recording, and choose the setting that meets a budget."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from edge_agent.arms import configured_arm
from foveate.bench.serial import load_models
from foveate.calibrate.arms import Cloud
from foveate.calibrate.recording import Recorder, Recording
from foveate.calibrate.replay import fit_gain
from foveate.calibrate.table import Budget, Row, cheapest_wanted, choose, nearest, rows
from foveate.config.load import Overrides
from foveate.config.model_check import check_models
from foveate.config.settings import for_sources, plan
from foveate.outputs import check_output
from pipeline.errors import ConfigError, SourceError
from pipeline.policies.calibration import Calibration
from pipeline.policies.crop_arms import ArmRecord, CropArm, cheapest
from pipeline.policies.gain import PRIOR
from pipeline.timing import MonotonicClock


def calibrate(source: Path, budget: Budget, output: Path, overrides: Overrides, console: Console) -> None:
    """Play a recording through both models, fit, print what each setting comes to, and write the one that is best.

    Raises ConfigError where none meets the budget or no model knows an object, SourceError where there is no recording.
    """
    if not source.is_file():
        raise SourceError(f"the recording {source} does not exist; name a video file.")
    check_output(output, source)
    configuration = for_sources([str(source)], overrides)
    check_models(configuration)
    product = plan(configuration)
    settings = product.agent.cameras[0]
    edge, cloud = load_models(product)
    recorder = Recorder(settings, edge, Cloud(cloud, product.agent.uplink.min_score), MonotonicClock())
    recording = recorder.play(source, lambda what: console.print(what, style="dim"))
    model = fit_gain(recording.frames, settings, PRIOR)
    default = configured_arm(settings)
    arm = cheapest(recording.arms, default)
    table = rows(recording, settings, model, arm, budget.kbps)
    best = choose(table, budget)
    console.print(_arms_table(recording, {default, arm}))
    console.print(_rows_table(table, best))
    if best is None:
        raise ConfigError(_not_met(nearest(table, budget), budget, source))
    try:
        output.write_text(Calibration(model, arm, best.least_gain).encode() + "\n", "utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {output} ({error.strerror}): name another file with -o.") from error
    console.print(_chosen(best, table, budget))
    console.print(
        f"Learned from {len(recording.frames)} frames, written to {output}: name it as `calibration` of the camera."
    )


def _not_met(row: Row, budget: Budget, source: Path) -> str:
    wanted = {
        "kbit/s": (budget.kbps, f"{row.kbps:.0f}"),
        "ms": (budget.deadline_ms, f"{row.ms:.0f}"),
        "agreement": (budget.agreement, f"{row.agreement:.3f}"),
    }
    got = ", ".join(f"{got} {unit}" for unit, (limit, got) in wanted.items() if limit is not None)
    return (
        f"no setting meets {_limits(budget)} on {source.name}; least_gain {row.least_gain:g} comes nearest, with {got}:"
        " allow more, or lower sample_fps."
    )


def _limits(budget: Budget) -> str:
    """The budget for people; empty where there is none."""
    limits = (
        ("at most", budget.kbps, "kbit/s"),
        ("at most", budget.deadline_ms, "ms"),
        ("at least", budget.agreement, "agreement"),
    )
    return " and ".join(f"{sense} {limit:g} {unit}" for sense, limit, unit in limits if limit is not None)


def _chosen(best: Row, table: list[Row], budget: Budget) -> str:
    limits, met = _limits(budget), sum(row.excess(budget) <= 0 for row in table)
    kbps, agreement = f"the fewest kbit/s ({best.kbps:.1f})", f"the best agreement ({best.agreement:.3f})"
    among = f"the {met} settings with {limits}" if limits else f"all {met} settings, for no budget was given"
    return (
        f"Chosen: least_gain {best.least_gain:g}, which asks about {best.asked:.0%} of the frames;"
        f" it has {kbps if cheapest_wanted(budget) else agreement} of {among}."
    )


def _arms_table(recording: Recording, marked: set[CropArm]) -> Table:
    table = Table("padding", "scale", "quality", "bytes", "agreement", title="Ways to draw crops", box=box.SIMPLE)
    known: list[tuple[CropArm, ArmRecord]] = sorted(recording.arms.items(), key=lambda item: -item[1].agreement)
    for place, (arm, record) in enumerate(known):
        if place < 5 or arm in marked:
            values = (f"{arm.padding:g}", f"{arm.scale:g}", f"{arm.quality}", f"{record.mean_bytes:.0f}")
            table.add_row(*values, f"{record.agreement:.3f}", style="bold" if arm in marked else "")
    return table


def _rows_table(rows: list[Row], best: Row | None) -> Table:
    table = Table("least gain", "asked", "kbit/s", "ms", "agreement", title="Settings", box=box.SIMPLE)
    table.caption = "asked: share of the analysed frames of which something is sent to the larger model"
    for row in rows:
        values = (f"{row.least_gain:g}", f"{row.asked:.0%}", f"{row.kbps:.1f}", f"{row.ms:.0f}")
        table.add_row(*values, f"{row.agreement:.3f}", style="bold" if row is best else "")
    return table
