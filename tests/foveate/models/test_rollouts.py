"""Rollouts seen and commanded over a real broker."""

import asyncio
import json

import msgspec
import pytest
from typer.testing import CliRunner

from foveate.models.rollout_cli import app, table
from foveate.models.rollouts import Which, chosen
from pipeline.errors import BrokerError, ConfigError
from pipeline.releases.standing import Audited, Standing, decode_order, encode_standing
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from tests.support.brokers import HOST, Embedded, running

STANDING = Standing(
    agent="a1",
    camera="gate",
    group="outdoor",
    site="north",
    stage="shadow",
    candidate="own@2",
    current="small@1",
    reason="12 of 20 comparisons with objects",
    since="2026-03-01T12:00:00.000Z",
    at="2026-03-01T12:01:00.000Z",
    comparisons=31,
    judged={"candidate": Audited(f1=0.912), "current": Audited(f1=0.871)},
)


@pytest.fixture(autouse=True)
def _a_broker_close_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.models.rollouts.RETAINED_WITHIN_S", 0.2)


async def said(*arguments: str, answers: bool = True) -> str:
    """What the command prints, or why it fails, with one agent at a real broker that obeys."""
    broker = Embedded()
    broker.start()
    try:
        return await _said(broker.port, arguments, answers=answers)
    finally:
        broker.stop()


async def _said(port: int, arguments: tuple[str, ...], *, answers: bool) -> str:
    session = MqttTransport(MqttSettings(HOST, port))

    def obey(message: Message) -> None:
        order = decode_order(message.payload)
        stage = {"promote": "canary", "rollback": "withdrawn", "pause": "shadow"}[order.command]
        now = msgspec.structs.replace(STANDING, stage=stage, paused=order.command == "pause", reason="by command")
        body = Outgoing(topics.rollout("a1", "gate"), encode_standing(now), qos=1, retain=True)
        waiting.append(asyncio.ensure_future(session.publish(body)))

    waiting: list[asyncio.Future[object]] = []
    if answers:
        session.subscribe(topics.rollout_command("a1", "gate"), obey, qos=1)
    async with running(session):
        await session.wait_connected()
        body = Outgoing(topics.rollout("a1", "gate"), encode_standing(STANDING), qos=1, retain=True)
        await session.publish(body)
        url = f"mqtt://{HOST}:{port}"
        result = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--broker", url])
        await asyncio.gather(*waiting)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


async def test_status_tells_of_every_release_at_the_broker() -> None:
    [line] = (await said("status", "--json")).splitlines()
    found = json.loads(line)
    assert (found["camera"], found["stage"], found["judged"]["candidate"]["f1"]) == ("gate", "shadow", 0.912)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("promote", "a1/gate is canary: by command"),
        ("pause", "a1/gate is shadow, paused: by command"),
        ("rollback", "a1/gate is withdrawn: by command"),
    ],
)
async def test_a_command_says_what_has_come_of_it(command: str, answer: str) -> None:
    assert (await said(command)).strip() == answer


async def test_a_command_for_a_camera_without_a_release_says_so() -> None:
    with pytest.raises(ConfigError, match="the camera 'yard'"):
        await said("promote", "--camera", "yard")


async def test_a_command_may_be_for_a_whole_group_or_site() -> None:
    assert (await said("promote", "--group", "outdoor", "--site", "north")).strip() == "a1/gate is canary: by command"
    with pytest.raises(ConfigError, match="for the group 'indoor' of the site 'north'"):
        await said("promote", "--group", "indoor", "--site", "north")


async def test_an_agent_that_does_not_answer_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.models.rollouts.ANSWER_WITHIN_S", 0.1)
    with pytest.raises(BrokerError, match="No agent answers to 'pause' for a1/gate"):
        await said("pause", answers=False)


def test_of_many_releases_one_must_be_chosen() -> None:
    other = msgspec.structs.replace(STANDING, camera="yard")
    with pytest.raises(ConfigError, match="choose one with --camera"):
        chosen([STANDING, other], Which(), "mqtt://b")
    assert chosen([other], Which("yard"), "mqtt://b") == [other]
    assert chosen([STANDING, other], Which(site="north"), "mqtt://b") == [STANDING, other]


def test_the_table_shows_both_models_and_takes_no_name_for_markup() -> None:
    made = table([msgspec.structs.replace(STANDING, candidate="[red]own@2")])
    cells = [str(cell) for column in made.columns for cell in column.cells]
    assert "0.912 / 0.871" in cells
    assert "[red]own@2" in cells
