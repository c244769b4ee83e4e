"""``foveate model rollout status | pause | promote | rollback``."""

import asyncio
import json
from typing import Annotated

import msgspec
import typer
from rich import box
from rich.table import Table
from rich.text import Text

from foveate.models.rollouts import Which, chosen, connected
from foveate.outputs import console
from pipeline.errors import BrokerError
from pipeline.releases.standing import Audited, Command, Standing
from pipeline.transport.settings import MqttSettings
from pipeline.transport.url import parse_broker_url

app = typer.Typer(no_args_is_help=True, help="See how releases of models stand at the agents, and command them.")

CameraName = Annotated[str | None, typer.Option("--camera", help="Only this camera.")]
AgentName = Annotated[str | None, typer.Option("--agent", help="Only this agent.")]
GroupName = Annotated[str | None, typer.Option("--group", help="All cameras of this group.")]
SiteName = Annotated[str | None, typer.Option("--site", help="All cameras at this site.")]
BrokerUrl = Annotated[str, typer.Option("--broker", help="mqtt://host:port.")]
BROKER = "mqtt://127.0.0.1:1883"


@app.command()
def status(
    camera: CameraName = None,
    agent: AgentName = None,
    group: GroupName = None,
    site: SiteName = None,
    broker: BrokerUrl = BROKER,
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, one JSON object per camera.")] = False,
) -> None:
    """Show each camera's release: its stage, how both models agree with the larger one, and why."""
    found = asyncio.run(_found(broker, Which(camera, agent, group, site)))
    if as_json:
        for one in found:
            typer.echo(json.dumps(msgspec.to_builtins(one)))
    elif found:
        console().print(table(found))
    else:
        typer.echo("no camera has a release")


@app.command()
def pause(
    camera: CameraName = None,
    agent: AgentName = None,
    group: GroupName = None,
    site: SiteName = None,
    broker: BrokerUrl = BROKER,
) -> None:
    """Let a camera's candidate go no further and answer no frame, until it is promoted; it is judged all the same."""
    asyncio.run(_order(broker, Which(camera, agent, group, site), "pause"))


@app.command()
def promote(
    camera: CameraName = None,
    agent: AgentName = None,
    group: GroupName = None,
    site: SiteName = None,
    broker: BrokerUrl = BROKER,
) -> None:
    """Take a camera's candidate a stage on, from the shadow to a tenth of the frames, or from there to all."""
    asyncio.run(_order(broker, Which(camera, agent, group, site), "promote"))


@app.command()
def rollback(
    camera: CameraName = None,
    agent: AgentName = None,
    group: GroupName = None,
    site: SiteName = None,
    broker: BrokerUrl = BROKER,
) -> None:
    """Give a camera's candidate up, or its current model for the one before."""
    asyncio.run(_order(broker, Which(camera, agent, group, site), "rollback"))


def table(found: list[Standing]) -> Table:
    """The releases as a table for people."""
    heads = ("camera", "stage", "current", "candidate", "F1", "compared", "share", "why")
    made = Table(*heads, box=box.SIMPLE)
    for one in found:
        both = " / ".join(_f1(one.judged.get(name)) for name in ("candidate", "current"))
        stage = f"{one.stage}, paused" if one.paused else one.stage
        # Names come from elsewhere: they are data, not markup.
        cells = (
            f"{one.agent}/{one.camera}",
            stage,
            one.current,
            one.candidate or "-",
            both if one.candidate else _f1(one.drift),
            str(one.comparisons if one.candidate else one.audits),
            f"{one.canary_share:.0%}" if one.candidate else "-",
            one.reason or one.refused,
        )
        made.add_row(*map(Text, cells))
    return made


def _f1(audited: Audited | None) -> str:
    return "-" if audited is None or audited.f1 is None else f"{audited.f1:.3f}"


def _at(broker: str) -> MqttSettings:
    return MqttSettings.of(parse_broker_url(broker), None)


async def _found(broker: str, which: Which) -> list[Standing]:
    async with connected(None, _at(broker)) as rollouts:
        return rollouts.of(which)


async def _order(broker: str, which: Which, command: Command) -> None:
    """Send a command and say what comes of it. Raises BrokerError where somebody does not answer."""
    async with connected(None, _at(broker)) as rollouts:
        standings = chosen(rollouts.of(which), which, broker)
        answers = await asyncio.gather(*(rollouts.order(standing, command) for standing in standings))
    for now in filter(None, answers):
        typer.echo(f"{now.agent}/{now.camera} is {now.stage}{', paused' if now.paused else ''}: {now.reason}")
    silent = [one for one, now in zip(standings, answers, strict=True) if now is None]
    if silent:
        names = ", ".join(f"{one.agent}/{one.camera}" for one in silent[:5]) + (", ..." if len(silent) > 5 else "")
        raise BrokerError(
            f"No agent answers to {command!r} for {names}: it may be offline, or the release has nothing to be changed."
        )
