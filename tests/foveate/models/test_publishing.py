"""A model of the manifest is published for the agents that it is meant for."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foveate.models.cli import app
from pipeline.errors import ConfigError, ModelError
from pipeline.releases.signing import SigningKey, TrustedKeys
from pipeline.transport.base import Message
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from tests.support.brokers import HOST, Embedded, running, until
from tests.support.spotted import models_folder


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return " ".join(result.stdout.split())


async def test_a_general_model_is_released_to_a_group_of_a_site_by_a_key_of_its_own(tmp_path: Path) -> None:
    models, key = models_folder(tmp_path / "models", seeing=True), tmp_path / "release.key"
    broker = Embedded()
    await asyncio.to_thread(broker.start)
    heard: list[Message] = []
    try:
        url, file_at = f"mqtt://{HOST}:{broker.port}", "http://192.0.2.1/general.onnx"
        options = ("--group", "gates", "--site", "north", "--url", file_at, "--key", key, "--broker", url)
        said = await asyncio.to_thread(run, "publish", "general", "--models-dir", models, "--size", "64x64", *options)
        session = MqttTransport(MqttSettings(HOST, broker.port))
        session.subscribe(topics.ANY_MODEL, heard.append)
        async with running(session):
            await until(lambda: bool(heard))
            signed = ("--key", key, "--broker", url)
            said_back = await asyncio.to_thread(run, "revoke", "general", "--reason", "it counts cars twice", *signed)
            await until(lambda: len(heard) > 1)
            with pytest.raises(ConfigError, match="already taken back"):
                await asyncio.to_thread(run, "revoke", "general", "--reason", "once more", *signed)
    finally:
        await asyncio.to_thread(broker.stop)
    public = SigningKey.of_file(key).public
    manifest = TrustedKeys([public]).open(heard[0].payload).manifest
    assert public in said
    assert manifest.title in said
    assert (manifest.kind, manifest.name, manifest.input_size) == ("general", "general", (64, 64))
    assert manifest.labels == ("person", "car", "dog")
    assert manifest.urls == (file_at,)
    assert manifest.audience.holds("yard", "gates", "north")
    assert not manifest.audience.holds("yard", "gates", "south")
    back = TrustedKeys([public]).open(heard[1].payload).manifest
    assert (back.revoked, back.title) == ("it counts cars twice", manifest.title)
    assert back.sequence > manifest.sequence
    assert "is taken back" in said_back


async def test_what_cannot_be_released_is_a_sentence(tmp_path: Path) -> None:
    models, key = models_folder(tmp_path / "models", seeing=True), tmp_path / "release.key"
    broker = Embedded()
    await asyncio.to_thread(broker.start)
    try:
        usual = ("--models-dir", models, "--size", "64x64", "--key", key, "--broker", f"mqtt://{HOST}:{broker.port}")
        with pytest.raises(ModelError, match="absent"):
            await asyncio.to_thread(run, "publish", "absent", *usual)
        with pytest.raises(ConfigError, match="urls are not"):
            await asyncio.to_thread(run, "publish", "general", "--url", "ftp://192.0.2.1/", *usual)
    finally:
        await asyncio.to_thread(broker.stop)
