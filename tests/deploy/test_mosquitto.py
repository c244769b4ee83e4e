"""The configuration and the access list that we hand out, in a real mosquitto."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from tests.support.brokers import HOST, Mosquitto, quick_backoff, running, until, wait_listening

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "mosquitto"
USERS = ("site-a", "worker", "releases", "viewer")

pytestmark = pytest.mark.mosquitto


class Guarded(Mosquitto):
    """A mosquitto under our access list; each user's password is its name."""

    def __init__(self, program: str, folder: Path) -> None:
        passwords, access = folder / "passwords", folder / "acl"
        tool = shutil.which("mosquitto_passwd") or str(Path(program).with_name("mosquitto_passwd"))
        passwords.touch()
        for user in USERS:
            subprocess.run([tool, "-b", str(passwords), user, user], check=True, capture_output=True)
        shutil.copy(FOLDER / "acl.example", access)
        folder.chmod(0o755)
        for file in (passwords, access):
            file.chmod(0o644)
        super().__init__(program, f"password_file {passwords}\nacl_file {access}")

    def session(self, user: str) -> MqttTransport:
        return MqttTransport(
            MqttSettings(HOST, self.port, username=user, password=user, ack_timeout_s=5), None, quick_backoff()
        )


@pytest.fixture
def guarded(mosquitto: str) -> Iterator[Guarded]:
    with tempfile.TemporaryDirectory() as folder:
        broker = Guarded(mosquitto, Path(folder))
        broker.start()
        yield broker
        broker.stop()


def listen(session: MqttTransport, *filters: str) -> list[Message]:
    heard: list[Message] = []
    for topic_filter in filters:
        session.subscribe(topic_filter, heard.append)
    return heard


async def test_under_the_access_list_a_question_and_its_answer_find_their_way(guarded: Guarded) -> None:
    agent, worker = guarded.session("site-a"), guarded.session("worker")
    asked = listen(worker, topics.request_share("workers", "cloud", "nanodet-g"))
    answered = listen(agent, topics.reply("site-a"), topics.ANY_WORKER)
    async with running(agent, worker):
        await agent.publish(Outgoing(topics.request("cloud", "nanodet-g"), b"picture"))
        await until(lambda: len(asked) == 1)
        await worker.publish(Outgoing(topics.reply("site-a"), b"boxes"))
        await worker.publish(Outgoing(topics.worker("w1"), b"{}", retain=True))
        await until(lambda: {m.payload for m in answered} == {b"boxes", b"{}"})


async def test_under_the_access_list_an_agent_cancels_its_own_requests_and_no_others(guarded: Guarded) -> None:
    agent, worker = guarded.session("site-a"), guarded.session("worker")
    cancelled = listen(worker, topics.cancels("cloud"))
    async with running(agent, worker):
        await agent.publish(Outgoing(topics.cancel("cloud", "site-b"), b"forged"))
        await agent.publish(Outgoing(topics.cancel("cloud", "site-a"), b"its own"))
        await until(lambda: len(cancelled) > 0)
    assert [message.payload for message in cancelled] == [b"its own"]


async def test_under_the_access_list_a_viewer_sees_what_is_published_and_no_picture(guarded: Guarded) -> None:
    agent, viewer = guarded.session("site-a"), guarded.session("viewer")
    shown = listen(
        viewer,
        "foveate/+/result",
        "foveate/+/count/+",
        "foveate/+/state",
        "foveate/+/alert",
        "foveate/agent/+/available",
    )
    spied = listen(viewer, "foveate/v1/req/+/+")
    sent = [topics.result("gate"), topics.count("gate", "person"), topics.state("gate"), topics.alert("gate")]
    sent.append(topics.available("site-a"))
    async with running(agent, viewer):
        await agent.publish(Outgoing(topics.request("cloud", "nanodet-g"), b"picture"))
        for topic in sent:
            await agent.publish(Outgoing(topic, b"1"))
        await until(lambda: len(shown) == len(sent))
    assert {message.topic for message in shown} == set(sent)
    assert spied == []


async def test_under_the_access_list_a_viewer_can_publish_nothing(guarded: Guarded) -> None:
    agent, viewer = guarded.session("site-a"), guarded.session("viewer")
    seen = listen(viewer, "foveate/+/result")
    async with running(agent, viewer):
        await viewer.publish(Outgoing(topics.result("gate"), b"forged"))
        await agent.publish(Outgoing(topics.result("gate"), b"true"))
        await until(lambda: len(seen) > 0)
        await asyncio.sleep(0)
    assert [message.payload for message in seen] == [b"true"]


async def test_under_the_access_list_an_agent_hears_releases_and_their_chunks_and_releases_none(
    guarded: Guarded,
) -> None:
    agent, releases = guarded.session("site-a"), guarded.session("releases")
    chunk = topics.model_chunk("own", "0" * 64, 0)
    heard = listen(agent, topics.ANY_MODEL, chunk)
    async with running(agent, releases):
        await agent.publish(Outgoing(topics.model("own"), b"forged", retain=True))
        await releases.publish(Outgoing(chunk, b"file", retain=True))
        await releases.publish(Outgoing(topics.model("own"), b"manifest", retain=True))
        await until(lambda: len(heard) == 2)
    assert [message.payload for message in heard] == [b"file", b"manifest"]


async def test_under_the_access_list_a_rollout_is_told_of_by_its_agent_and_commanded_by_who_releases(
    guarded: Guarded,
) -> None:
    agent, releases, viewer = (guarded.session(user) for user in ("site-a", "releases", "viewer"))
    told = listen(releases, topics.ANY_ROLLOUT)
    ordered = listen(agent, topics.rollout_command("site-a", "gate"))
    async with running(agent, releases, viewer):
        await agent.publish(Outgoing(topics.rollout("site-a", "gate"), b"standing", qos=1, retain=True))
        await viewer.publish(Outgoing(topics.rollout_command("site-a", "gate"), b"forged", qos=1))
        await releases.publish(Outgoing(topics.rollout_command("site-a", "gate"), b"order", qos=1))
        await until(lambda: len(told) == 1 and len(ordered) == 1)
    assert [message.payload for message in (*told, *ordered)] == [b"standing", b"order"]


class Delivered(Mosquitto):
    """A mosquitto under the configuration that we hand out, on another port."""

    def start(self) -> None:
        text = (FOLDER / "mosquitto.conf").read_text("utf-8").replace("listener 1883", f"listener {self.port} {HOST}")
        assert f"listener {self.port}" in text
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            configuration = Path(folder) / "mosquitto.conf"
            configuration.write_text(text)
            self._process = subprocess.Popen([self._program, "-c", str(configuration)], stderr=subprocess.DEVNULL)
            wait_listening(self.port, self._process)


async def test_mosquitto_takes_our_configuration_and_requests_as_large_as_they_may_be(mosquitto: str) -> None:
    broker = Delivered(mosquitto)
    broker.start()
    try:
        session = MqttTransport(MqttSettings(HOST, broker.port), None, quick_backoff())
        heard = listen(session, topics.request("cloud", "nanodet-g"))
        async with running(session):
            largest = Outgoing(topics.request("cloud", "nanodet-g"), bytes(8 * 1024 * 1024))
            assert await session.publish(largest) is PublishStatus.SENT
            await until(lambda: len(heard) == 1)
        assert len(heard[0].payload) == len(largest.payload)
    finally:
        broker.stop()
