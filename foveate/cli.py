"""The ``foveate`` command. A fault is one sentence on standard error and its exit code; see pipeline/errors.py."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

import foveate.bench.cli
import foveate.config.cli
import foveate.learn.cli
import foveate.models.cli
import foveate.simulation.cli
from cloud_worker.main import serve
from cloud_worker.threads import leave
from edge_agent.capture.address import SourceKind, parse_address
from foveate.broker import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_PORT_V3, run_broker
from foveate.capacity.cli import plan_command
from foveate.config.load import Overrides, load
from foveate.config.model_check import check_models
from foveate.config.models import Configuration
from foveate.config.settings import for_sources, mqtt_settings, plan, worker_settings
from foveate.learn.alone import learning_alone
from foveate.learn.folders import default_state_dir
from foveate.outputs import check_apart, console
from foveate.plan import Outputs, Plan
from foveate.run import Run
from foveate.watch import watch
from pipeline.alerts import AnyAlert
from pipeline.detectors.threads import default_threads
from pipeline.errors import ConfigError, FoveateError, SourceError
from pipeline.network.profiles import PROFILES, in_folder
from pipeline.results import Result

app = typer.Typer(
    name="foveate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Real-time video analysis with a small model at the edge and a larger one behind MQTT, always in time.",
)
app.add_typer(foveate.models.cli.app, name="model")
app.add_typer(foveate.config.cli.app, name="config")
app.add_typer(foveate.bench.cli.app, name="bench")
app.add_typer(foveate.simulation.cli.app, name="simulate")
app.add_typer(foveate.learn.cli.app, name="learn")
app.command("plan")(plan_command)

Sources = Annotated[
    list[str] | None, typer.Argument(metavar="SOURCE...", help="rtsp://..., a file, a folder, device:0, synthetic:")
]
ConfigFile = Annotated[Path | None, typer.Option("-c", "--config", help="Configuration, for example foveate.yaml.")]
BrokerUrl = Annotated[str | None, typer.Option("--broker", help="mqtt://host:port of a broker that runs already.")]
NetworkName = Annotated[
    str | None,
    typer.Option(help=f"Reach the broker as over this network: {', '.join(PROFILES)}, or mahimahi:UP_FILE,DOWN_FILE."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log what happens.")]


@app.command()
def run(  # noqa: PLR0913 - one parameter per option
    sources: Sources = None,
    config: ConfigFile = None,
    broker: BrokerUrl = None,
    realtime: Annotated[bool, typer.Option("--realtime", help="Play files by their own time, like a camera.")] = False,
    mode: Annotated[str | None, typer.Option(help="adaptive, edge_only or cloud_only.")] = None,
    deadline_ms: Annotated[float | None, typer.Option(help="An answer at the latest so long after capture.")] = None,
    sample_fps: Annotated[float | None, typer.Option(help="Frames analysed per second, at most.")] = None,
    uplink_kbps: Annotated[float | None, typer.Option(help="Uplink budget in kbit/s.")] = None,
    objects: Annotated[list[str] | None, typer.Option("--object", help="Only this class; may be repeated.")] = None,
    learn: Annotated[bool, typer.Option("--learn", help="Have the cameras get models of their own.")] = False,
    publish: Annotated[str | None, typer.Option(help="analysed or all: which frames' results go to MQTT.")] = None,
    network: NetworkName = None,
    network_seed: Annotated[int | None, typer.Option(help="Another course of that network's chances.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the embedded broker.")] = None,
    web_port: Annotated[int | None, typer.Option(help="Port of the status page; 0 for a free one.")] = None,
    no_web: Annotated[bool, typer.Option("--no-web", help="No status page.")] = False,
    summary: Annotated[Path | None, typer.Option(help="Write the summary as JSON to this file.")] = None,
    record: Annotated[Path | None, typer.Option(help="Write every result to this file, one JSON per line.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the status page where there is a display.")] = False,
    verbose: Verbose = False,
) -> None:
    """Point it at a camera or a file: results over MQTT and on a status page, with all that is needed in one run."""
    overrides: Overrides = {
        **_broker_keys(broker, port),
        **_network_keys(network, network_seed),
        "uplink.uplink_kbps": uplink_kbps,
        "web.port": web_port,
        "web.enabled": False if no_web else None,
        "cameras.realtime": True if realtime else None,
        "cameras.mode": mode,
        "cameras.deadline_ms": deadline_ms,
        "cameras.sample_fps": sample_fps,
        "cameras.objects": objects or None,
        "cameras.publish": publish,
    }
    made = plan((_learning if learn else _configuration)(sources or [], config, overrides))
    if network_seed is not None and made.network is None:
        raise ConfigError("--network-seed is given, but no modelled network: name one with --network.")
    _go(made, Outputs(summary, record, open_page), verbose, [*(sources or []), config or ""])


@app.command()
def edge(config: ConfigFile = None, broker: BrokerUrl = None, verbose: Verbose = False) -> None:
    """Run an edge agent alone: cameras of a configuration, at a broker with workers elsewhere."""
    made = plan(_configuration([], config, {"broker.url": broker}))
    if made.embedded is not None:
        raise ConfigError("an edge agent needs a broker: name it with --broker mqtt://host:port or broker.url.")
    _go(made, Outputs(), verbose)


@app.command()
def worker(
    config: ConfigFile = None,
    broker: BrokerUrl = None,
    threads: Annotated[int | None, typer.Option(help="Inference threads; all CPUs that it may use if not set.")] = None,
    verbose: Verbose = False,
) -> None:
    """Run a cloud worker: the larger model behind MQTT. Start more of them to share the load."""
    _log_to_stderr(verbose)
    configuration = load(config, os.environ, {"broker.url": broker, "worker.threads": threads})
    settings = worker_settings(configuration, default_threads())
    asyncio.run(serve(settings, mqtt_settings(configuration), configuration.models.dir))
    leave(0)


@app.command("broker")
def broker_command(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = DEFAULT_HOST,
    port: Annotated[int, typer.Option(help="Port for MQTT 5.")] = DEFAULT_PORT,
    port_v3: Annotated[int | None, typer.Option(help="Port for MQTT 3.1.1.")] = DEFAULT_PORT_V3,
) -> None:
    """Run the embedded MQTT broker alone."""
    run_broker(host, port, port_v3)


@app.command("calibrate")
def calibrate_command(
    source: Annotated[Path, typer.Argument(metavar="RECORDING", help="A video file of the camera.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where what is learned goes.")],
    budget_kbps: Annotated[float | None, typer.Option(min=0.001, help="At most so many kbit/s up.")] = None,
    deadline_ms: Annotated[
        float | None, typer.Option(min=0.001, help="Answers of the larger model within this.")
    ] = None,
    agreement: Annotated[float | None, typer.Option(min=0.001, max=1, help="At least this F1 against it.")] = None,
    objects: Annotated[list[str] | None, typer.Option("--object", help="Only this class; may be repeated.")] = None,
    sample_fps: Annotated[float | None, typer.Option(help="Frames analysed per second, at most.")] = None,
) -> None:
    """Learn about a camera from a recording: where a second look pays, how to draw crops, what a budget allows."""
    # Stages of the benchmarks, which no other command needs.
    from foveate.calibrate.command import calibrate
    from foveate.calibrate.table import Budget

    budget = Budget(budget_kbps, deadline_ms, agreement)
    overrides: Overrides = {"cameras.objects": objects or None, "cameras.sample_fps": sample_fps}
    calibrate(source, budget, output, overrides, console())


@app.command("watch")
def watch_command(
    camera: Annotated[str | None, typer.Option(help="Only this camera.")] = None,
    broker: Annotated[str, typer.Option("--broker", help="mqtt://host:port.")] = "mqtt://127.0.0.1:1883",
    as_json: Annotated[bool, typer.Option("--json", help="The messages as they are, one per line.")] = False,
) -> None:
    """Print results and alerts as they come, one line each."""
    asyncio.run(watch(broker, camera, as_json, sys.stdout))


@app.command()
def schema(what: Annotated[str, typer.Argument(metavar="WHAT", help="result or alert")] = "result") -> None:
    """Print the JSON Schema of a published message."""
    messages = {"result": Result, "alert": AnyAlert}
    if what not in messages:
        raise ConfigError(f"there is no schema of {what!r}: there is one of {' and one of '.join(messages)}.")
    typer.echo(json.dumps(msgspec.json.schema(messages[what]), indent=2))


def _network_keys(network: str | None, seed: int | None) -> Overrides:
    profile = None if network is None else in_folder(network, Path.cwd())
    return {"network.profile": profile, "network.seed": seed}


def _broker_keys(url: str | None, port: int | None) -> Overrides:
    return {
        "broker.url": url,
        "broker.embedded.port": port,
        "broker.embedded.port_v3": None if port is None or port > 65_534 else port + 1,
    }


def _learning(sources: list[str], config: Path | None, overrides: Overrides) -> Configuration:
    """The configuration with learning switched on, and a folder for what is learned."""
    named = _configuration(sources, config, overrides).agent.state_dir
    state_dir = named or default_state_dir(os.environ)
    switched: Overrides = {"learn.enabled": True, "cameras.lessons.enabled": True, "agent.state_dir": state_dir}
    if named is None:
        console().print(f"what is learned is kept in {state_dir}", markup=False, soft_wrap=True)
    return _configuration(sources, config, {**overrides, **switched})


def _check_present(sources: list[str]) -> None:
    """A mistyped name is told before anything is started; beside other sources it is a camera's fault of its own."""
    absent = [s for s in sources if parse_address(s).kind is SourceKind.PATH and not Path(s).exists()]
    if sources and absent == sources:
        raise SourceError(f"the source {absent[0]} does not exist; check the path.")


def _configuration(sources: list[str], config: Path | None, overrides: Overrides) -> Configuration:
    if sources and config is not None:
        raise ConfigError("name the sources on the command line or in the configuration, not in both.")
    configuration = for_sources(sources, overrides) if sources else load(config, os.environ, overrides)
    if not configuration.cameras:
        raise ConfigError("there is no source: name a camera, a file or a folder, or a configuration with -c.")
    check_models(configuration)
    _check_present(sources)
    return configuration


def _go(made: Plan, outputs: Outputs, verbose: bool, inputs: Sequence[str | Path] = ()) -> None:
    check_apart(outputs, inputs)
    _log_to_stderr(verbose)
    with learning_alone(made):
        raise typer.Exit(asyncio.run(Run(made, outputs, console()).go()))


def _log_to_stderr(verbose: bool) -> None:
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)


def main() -> None:
    """Run the command."""
    try:
        app()
    except FoveateError as error:
        print(f"foveate: {error}", file=sys.stderr)
        leave(error.exit_code)
