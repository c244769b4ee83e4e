"""``foveate learn lessons | train | release | status``."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from foveate.config.names import camera_name
from foveate.learn.alone import held
from foveate.learn.filling import fill_from
from foveate.learn.folders import earlier_student
from foveate.learn.memory import read_memory, write_memory
from foveate.learn.places import Place, place
from foveate.learn.pupils import keep_outcome
from foveate.learn.release import Releaser, signing_key
from foveate.learn.settings import WayWanted, ways
from foveate.learn.tables import lessons_as_json, show_lessons, show_outcome, show_states, state_as_json
from foveate.learn.values import AttemptOrder, Outcome
from foveate.models import rollouts
from foveate.outputs import console
from foveate.session import connected
from foveate.training.order import Progress as Step
from pipeline.detectors.manifest import read_manifest
from pipeline.detectors.threads import default_threads
from pipeline.errors import BrokerError, ConfigError, ModelError
from pipeline.policies.learners import enough_to_learn
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import TrustedKeys
from pipeline.releases.standing import Standing
from pipeline.timing import wall_time
from pipeline.transport.base import Transport
from pipeline.wire.topics import camera_fault

app = typer.Typer(no_args_is_help=True, help="Models of the cameras' own, step by step: see also foveate run --learn.")

Config = Annotated[Path | None, typer.Option("-c", "--config", help="The configuration of the agent that learns.")]
StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help="Its state folder; else the user's own, as of foveate run --learn.")
]
Camera = Annotated[str | None, typer.Option("--camera", help="Only this camera.")]
BrokerUrl = Annotated[str | None, typer.Option("--broker", help="mqtt://host:port; else that of the configuration.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
_BAR = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())


@app.command()
def lessons(
    camera: Camera = None,
    config: Config = None,
    state_dir: StateDir = None,
    recording: Annotated[
        Path | None, typer.Option("--from", metavar="VIDEO", help="First take lessons from this recording.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the lessons hold, what they are enough for and what is missing; or take some from a recording."""
    where, shown = place(config, state_dir), console()
    if recording is not None:
        camera = camera or camera_name(str(recording), ())
        if fault := camera_fault(camera):
            raise ConfigError(f"--camera {camera!r} becomes part of MQTT topics, but {fault}: choose another name.")
        _fill(where, camera, recording, Console(stderr=True) if as_json else shown)
    names = where.cameras() if camera is None else [where.one_camera(camera)]
    found = {name: where.store(name).summary() for name in names}
    if as_json:
        typer.echo(
            json.dumps({name: lessons_as_json(one, enough_to_learn(one)) for name, one in found.items()}, indent=2)
        )
        return
    for name, summary in found.items():
        show_lessons(shown, name, summary, enough_to_learn(summary))
    if not names:
        shown.print(where.no_camera, markup=False, soft_wrap=True)


@app.command()
def train(
    camera: Camera = None,
    config: Config = None,
    state_dir: StateDir = None,
    way: Annotated[str, typer.Option(help="auto, own or adapt.")] = "auto",
    time_limit_s: Annotated[float, typer.Option(min=10, help="How long each way may take.")] = 420.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; all that it may use if not set.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also copy an accepted model and its contract to this folder.")
    ] = None,
) -> None:
    """Train a model from a camera's lessons, and judge it on the newest of them, beside the general model."""
    where, shown = place(config, state_dir), console()
    name = where.one_camera(camera)
    order = _order(where, name, _way(way), time_limit_s, threads or default_threads())
    folders = where.folders(name)
    with held(folders.by_hand_lock, f"a training by hand is under way for {name}: wait for its end, or stop it."):
        # What was left off is not gone on with: there may be other lessons now.
        shutil.rmtree(order.folder, ignore_errors=True)
        outcome = _train(order, shown)
        kept = keep_outcome(folders, outcome, where.agent, wall_time())
        shutil.rmtree(order.folder, ignore_errors=True)
    show_outcome(shown, kept)
    if kept.model is None:
        raise ModelError(f"there is no model for {name}: what speaks against it stands above.")
    if out is not None:
        _copy(kept, out)
        shown.print(f"written to {out}", markup=False, soft_wrap=True)


@app.command()
def release(camera: Camera = None, config: Config = None, state_dir: StateDir = None, broker: BrokerUrl = None) -> None:
    """Sign the accepted model of a camera and publish it to its agent, which proves it before it looks alone."""
    where, shown = place(config, state_dir), console()
    name = where.one_camera(camera)
    outcome = where.folders(name).outcome()
    if outcome is None:
        raise ConfigError(f"{name} has no model to release: train one with 'foveate learn train --camera {name}'.")
    key = signing_key(where.state_dir)
    title = asyncio.run(_release(where, outcome, broker))
    memory_file = where.folders(name).memory_file
    if outcome.model is not None:
        memory = read_memory(memory_file)
        standing = asyncio.run(_standings(broker, where)).get(name)
        before = "" if memory.released is None else memory.released.title
        looks = before if standing is None else standing.current
        write_memory(memory_file, memory.with_release(outcome.model, looks))
    shown.print(f"{title} is released for camera {name}", markup=False, soft_wrap=True)
    shown.print(f"agents take it that have {key.public} in models.trusted_keys", markup=False, soft_wrap=True)


@app.command()
def status(
    camera: Camera = None,
    config: Config = None,
    state_dir: StateDir = None,
    broker: BrokerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show where each camera stands: its lessons, its last training, its release, and how that is doing."""
    where, shown, fault = place(config, state_dir), console(), ""
    cameras = where.cameras() if camera is None else [where.one_camera(camera)]
    if not cameras and not as_json:
        shown.print(where.no_camera, markup=False, soft_wrap=True)
        return
    try:
        stand = asyncio.run(_standings(broker, where))
    except BrokerError as error:
        stand, fault = {}, f"how releases are doing is not known: {error}"
    states = {}
    for name in cameras:
        states[name] = state_as_json(where.store(name).summary(), where.folders(name), stand.get(name))
    if as_json:
        typer.echo(json.dumps({"cameras": states, "fault": fault}, indent=2))
    else:
        show_states(shown, states, fault)


def _fill(where: Place, camera: str, recording: Path, shown: Console) -> None:
    with Progress(*_BAR, console=shown, transient=True) as bars:
        bar = bars.add_task("the larger model looks", total=1.0)
        filled = fill_from(
            recording,
            where.settings(camera),
            where.store(camera),
            where.plan,
            lambda share: bars.update(bar, completed=share),
        )
    shown.print(
        f"{camera}: the larger model has looked at {filled.looked} frames; {filled.kept} lessons are kept, "
        f"{filled.known} were there already, {filled.left_out} "
        + ("would have added nothing" if not filled.unwritten else "are lost: the disk did not take all that was new"),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _way(text: str) -> WayWanted:
    known: dict[str, WayWanted] = {"auto": "auto", "own": "own", "adapt": "adapt"}
    if text not in known:
        raise ConfigError(f"--way {text!r} is none: choose auto, own or adapt.")
    return known[text]


def _order(where: Place, camera: str, way: WayWanted, time_limit_s: float, threads: int) -> AttemptOrder:
    """Raises ConfigError where the lessons are enough for nothing, and no way is insisted on."""
    found, settings, folders = (
        enough_to_learn(where.store(camera).summary()),
        where.settings(camera),
        where.folders(camera),
    )
    if way == "auto" and found.way == "wait":
        raise ConfigError(f"there is no model to be had for {camera} yet: {found.reason}")
    return AttemptOrder(
        camera=camera,
        lessons=folders.lessons,
        folder=folders.by_hand,
        general=where.general,
        ways=ways(way, "adapt" if found.way == "wait" else found.way),
        objects=tuple(sorted(settings.objects)),
        threshold=settings.tracker.publish_score,
        threads=threads,
        time_limit_s=time_limit_s,
        most_ms=where.plan.learn.most_ms,
        start_from=earlier_student(where.state_dir, camera),
    )


def _train(order: AttemptOrder, shown: Console) -> Outcome:
    # The 8-bit build needs the package onnx, which the other commands do not.
    from foveate.learn.attempt import Attempt

    with Progress(*_BAR, console=shown, transient=True) as bars:
        bar = bars.add_task("gathering lessons", total=1.0)

        doing = [""]

        def say(step: Step) -> None:
            bars.update(bar, completed=step.done, description=step.doing)
            if step.doing != doing[0] and not shown.is_terminal:  # where no bar is drawn, minutes would pass in silence
                shown.print(step.doing, markup=False, highlight=False, soft_wrap=True)
            doing[0] = step.doing

        return asyncio.run(Attempt(order, say).go())


def _copy(outcome: Outcome, out: Path) -> None:
    if outcome.model is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        shutil.copy2(outcome.model.file, out / outcome.model.file.name)
        (out / "outcome.json").write_bytes(msgspec.json.format(msgspec.json.encode(outcome, enc_hook=str)) + b"\n")
    except OSError as error:
        raise ConfigError(f"cannot write to {out} ({error.strerror}): name another folder with --out.") from error


async def _release(where: Place, outcome: Outcome, broker: str | None) -> str:
    key, publishers = signing_key(where.state_dir), list[ReleasePublisher]()

    def prepare(session: Transport) -> None:
        publishers.append(ReleasePublisher(session, TrustedKeys([key.public])))

    async with connected(broker, where.plan.mqtt, prepare):
        general = read_manifest(where.plan.models_dir).entry(where.general.name)
        parent = f"{general.name}@{general.version}"
        released = await Releaser(publishers[0], key, parent).release(outcome, wall_time())
    return released.manifest.title


async def _standings(broker: str | None, where: Place) -> dict[str, Standing]:
    """How the releases of an agent's cameras stand, as the broker has it. Raises ConfigError, BrokerError."""
    async with rollouts.connected(broker, where.plan.mqtt) as found:
        return {one.camera: one for one in found.of(rollouts.Which(agent=where.agent))}
