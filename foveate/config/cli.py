"""``foveate config check | show | schema``."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from foveate.config.load import load
from foveate.config.model_check import check_models
from foveate.config.models import Configuration
from foveate.config.settings import agent_settings, mqtt_settings, web_settings, worker_settings
from foveate.config.show import show

app = typer.Typer(no_args_is_help=True, help="Check and show configurations.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="A configuration, for example foveate.yaml.")]


@app.command()
def check(file: File) -> None:
    """Check a configuration, with its secrets' files and the models that it names."""
    configuration = load(file, os.environ)
    for part in (agent_settings, worker_settings, mqtt_settings, web_settings):
        part(configuration)
    check_models(configuration)
    names = ", ".join(camera.name for camera in configuration.cameras)
    typer.echo(f"{file} is valid; cameras: {names or 'none'}")


@app.command("show")
def show_file(file: File) -> None:
    """Print the effective configuration: every key with its value, secrets masked."""
    typer.echo(show(load(file, os.environ)), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Configuration.model_json_schema()
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
