"""The ``foveate`` command."""

import sys

import click
import typer

import foveate.models.cli
from pipeline.errors import FoveateError

app = typer.Typer(
    name="foveate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Real-time video analysis with a small model at the edge and a larger one behind MQTT, always in time.",
)
app.add_typer(foveate.models.cli.app, name="model")


def main() -> None:
    """Run the command; a fault is one sentence on standard error and its exit code."""
    try:
        code = app(standalone_mode=False)
    except FoveateError as error:
        print(f"foveate: {error}", file=sys.stderr)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = 2
    except (KeyboardInterrupt, click.Abort):
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
