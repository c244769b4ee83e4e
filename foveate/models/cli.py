"""``foveate model list | inspect | quantize | publish | revoke | rollout``."""

import asyncio
import os
import re
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import foveate.models.rollout_cli
from foveate.learn.folders import default_state_dir
from foveate.learn.release import KEY_FILE
from foveate.models.describe import describe, file_state
from foveate.models.publishing import Publication, publish_model, revoke_release
from foveate.models.release import QuantizePlan, quantize_model
from foveate.models.rollout_cli import BROKER, BrokerUrl
from pipeline.detectors.contract import HeightWidth
from pipeline.detectors.manifest import read_manifest
from pipeline.errors import ConfigError
from pipeline.releases.manifest import Audience
from pipeline.releases.signing import SigningKey
from pipeline.timing import MonotonicClock

app = typer.Typer(no_args_is_help=True, help="List, inspect, quantise and publish detection models; see rollouts.")
app.add_typer(foveate.models.rollout_cli.app, name="rollout")

ModelsDir = Annotated[
    Path | None, typer.Option("--models-dir", help="Folder with manifest.toml; else FOVEATE_MODELS, else models/.")
]

KeyFile = Annotated[
    Path | None, typer.Option("--key", help="Signing key, made on first use; else that of the user's state folder.")
]


@app.command("list")
def list_models(models_dir: ModelsDir = None) -> None:
    """List the models of the manifest and the state of their files."""
    manifest = read_manifest(models_dir)
    table = Table("model", "version", "input", "licence", "measured", "file", box=box.SIMPLE)
    for entry in manifest.entries:
        shown = [f"{key} {entry.measured[key]}" for key in ("f1", "agreement", "median_ms") if key in entry.measured]
        table.add_row(
            entry.name,
            entry.version,
            "{}x{}".format(*entry.input.size_px),
            entry.licence,
            ", ".join(shown) or "-",
            file_state(manifest, entry),
        )
    Console().print(table)


@app.command()
def inspect(
    file_or_name: Annotated[str, typer.Argument(metavar="FILE|NAME", help="An ONNX file or a model of the manifest.")],
    models_dir: ModelsDir = None,
) -> None:
    """Show a model's contract, inputs and outputs, versions and hash."""
    table = Table(show_header=False, box=None)
    for what, value in describe(file_or_name, models_dir):
        # Names come out of the file: they are data, not markup.
        table.add_row(Text(what, style="bold"), Text(value))
    Console().print(table)


@app.command()
def quantize(  # noqa: PLR0913 -- each parameter is an option of the command
    name: Annotated[str, typer.Argument(metavar="NAME", help="A float model of the manifest.")],
    calibrate: Annotated[list[Path], typer.Option("--calibrate", help="A clip to calibrate on; may be repeated.")],
    judge: Annotated[Path, typer.Option("--judge", help="The clip to judge on, another than those calibrated on.")],
    gt: Annotated[Path | None, typer.Option("--gt", help="Ground truth of the judged clip in MOT format.")] = None,
    gt_label: Annotated[str, typer.Option("--gt-label", help="Class of the boxes in --gt.")] = "person",
    size: Annotated[
        str | None, typer.Option("--size", help="Input as HEIGHTxWIDTH; else the model's usual one.")
    ] = None,
    frames: Annotated[int, typer.Option("--frames", min=1, help="Frames per clip to calibrate on.")] = 45,
    every: Annotated[int, typer.Option("--every", min=1, help="Judge on every n-th frame.")] = 10,
    models_dir: ModelsDir = None,
) -> None:
    """Build the 8-bit twin NAME-int8 and keep it if it is faster and sees no worse."""
    usual = read_manifest(models_dir).entry(name).input.size_px
    plan = QuantizePlan(name, tuple(calibrate), judge, gt, gt_label, parse_size(size) if size else usual, frames, every)
    entry, verdict = quantize_model(plan, models_dir, MonotonicClock())
    typer.echo(f"{entry.name} {entry.version} is in the manifest: {verdict.figures()}")


@app.command()
def publish(  # noqa: PLR0913 -- each parameter is an option of the command
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model of the manifest, for agents' general one.")],
    camera: Annotated[list[str] | None, typer.Option("--camera", help="Only for this camera; may be repeated.")] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Only for cameras of this group; may be repeated.")
    ] = None,
    site: Annotated[str, typer.Option("--site", help="Only for agents of this site.")] = "",
    size: Annotated[
        str | None, typer.Option("--size", help="Input as HEIGHTxWIDTH; else the model's usual one.")
    ] = None,
    url: Annotated[
        list[str] | None,
        typer.Option("--url", help="Where else agents find the file, http or https, tried first; may be repeated."),
    ] = None,
    key: KeyFile = None,
    broker: BrokerUrl = BROKER,
    models_dir: ModelsDir = None,
) -> None:
    """Sign a model and publish it to agents, each of which proves it at its cameras before it looks there."""
    signing = _signing_key(key)
    audience = Audience(cameras=tuple(camera or ()), groups=tuple(group or ()), site=site)
    wanted = Publication(name, models_dir, parse_size(size) if size else None, audience, tuple(url or ()))
    manifest = asyncio.run(publish_model(wanted, signing, broker))
    typer.echo(f"{manifest.title} is released")
    typer.echo(f"agents take it that have {signing.public} in models.trusted_keys")


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The released model.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; agents say it.")],
    key: KeyFile = None,
    broker: BrokerUrl = BROKER,
) -> None:
    """Take the newest release of a model back at every agent that has it."""
    manifest = asyncio.run(revoke_release(name, reason, _signing_key(key), broker))
    typer.echo(f"{manifest.title} is taken back")


def _signing_key(file: Path | None) -> SigningKey:
    return SigningKey.of_file(file or default_state_dir(os.environ) / KEY_FILE)


def parse_size(text: str) -> HeightWidth:
    """Read HEIGHTxWIDTH in pixels. Raises ConfigError."""
    found = re.fullmatch(r"(\d{1,5})[x×](\d{1,5})", text.strip())
    if found is None:
        raise ConfigError(f"--size {text!r} is no size: write HEIGHTxWIDTH in pixels, for example 192x256.")
    return int(found[1]), int(found[2])
