"""The bridge that we hand out, between two real mosquittos: an agent's side of it on site, the workers behind it."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from cloud_worker.announce import offline
from cloud_worker.service import WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from pipeline.timing import MonotonicClock
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings, TlsSettings
from pipeline.wire import topics
from pipeline.wire.codec import decode_reply, decode_worker_state, encode_request
from pipeline.wire.messages import Refusal, Reply, WorkerState
from tests.support.brokers import HOST, Mosquitto, quick_backoff, running, until
from tests.support.detectors import ScriptedDetector, grey_picture, jpeg_of
from tests.support.workers import make_request

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "mosquitto"
NAME = "localhost"
"""What the certificate of the broker in the cloud is for."""
USERS = ("bridge-site-a", "worker", "viewer")

pytestmark = pytest.mark.mosquitto


def shared_lines() -> str:
    """Our mosquitto.conf but for what the tests set themselves."""
    lines = (FOLDER / "mosquitto.conf").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("listener", "allow_anonymous", "set_tcp_nodelay")))


def bridge_to(port: int, ca_file: Path) -> str:
    """Our bridge, to a broker on this machine with a certificate of this authority."""
    text = (FOLDER / "bridge.conf").read_text("utf-8")
    text, addresses = re.subn(r"^address .*$", f"address {NAME}:{port}", text, flags=re.M)
    text, certificates = re.subn(r"^bridge_cafile .*$", f"bridge_cafile {ca_file}", text, flags=re.M)
    text, passwords = re.subn(r"^remote_password .*$", "remote_password bridge-site-a", text, flags=re.M)
    assert (addresses, certificates, passwords) == (1, 1, 1)
    return text


class Sites:
    """The broker of a site, and the one in the cloud, with TLS, under our access list.

    Each user's password is its name.
    """

    def __init__(self, program: str, folder: Path, certificates: Path) -> None:
        passwords, access = folder / "passwords", folder / "acl"
        tool = shutil.which("mosquitto_passwd") or str(Path(program).with_name("mosquitto_passwd"))
        passwords.touch()
        for user in USERS:
            subprocess.run([tool, "-b", str(passwords), user, user], check=True, capture_output=True)
        shutil.copy(FOLDER / "acl.example", access)
        for file in (passwords, access):
            file.chmod(0o644)
        self._ca_file = certificates / "ca.pem"
        tls = f"certfile {certificates / 'cert.pem'}\nkeyfile {certificates / 'key.pem'}"
        self.cloud = Mosquitto(program, f"{tls}\n{shared_lines()}\npassword_file {passwords}\nacl_file {access}")
        self.site = Mosquitto(program, f"{shared_lines()}\n{bridge_to(self.cloud.port, self._ca_file)}")

    def on_site(self) -> MqttTransport:
        return MqttTransport(MqttSettings(HOST, self.site.port), None, quick_backoff())

    def in_the_cloud(self, user: str, will: Outgoing | None = None) -> MqttTransport:
        tls = TlsSettings(str(self._ca_file))
        settings = MqttSettings(NAME, self.cloud.port, username=user, password=user, tls=tls)
        return MqttTransport(settings, will, quick_backoff())


@pytest.fixture
def sites(mosquitto: str, public_folder: Path, authority: Callable[[str, int], Path]) -> Iterator[Sites]:
    made = Sites(mosquitto, public_folder, authority(NAME, 2))
    made.cloud.start()
    made.site.start()
    yield made
    made.site.stop()
    made.cloud.stop()


@pytest.fixture
async def worker(sites: Sites) -> AsyncIterator[WorkerService]:
    """A worker at the cloud's broker."""
    settings = WorkerSettings((ServedModel("m"),), worker="w1", cache_ttl_s=0.0)
    session = sites.in_the_cloud("worker", offline("w1"))
    service = WorkerService(settings, {"m": ScriptedDetector()}, session, MonotonicClock())
    serving = asyncio.create_task(service.run())
    yield service
    service.stop()
    await serving


class Agent:
    """What an agent does on the site's broker."""

    def __init__(self, sites: Sites) -> None:
        self.session = sites.on_site()
        self.replies: dict[bytes | None, Message] = {}
        self.online: dict[str, bool] = {}
        self.session.subscribe(topics.reply("site-a"), self._on_reply)
        self.session.subscribe(topics.ANY_WORKER, self._on_state)

    def _on_reply(self, message: Message) -> None:
        self.replies[message.correlation] = message

    def _on_state(self, message: Message) -> None:
        state = decode_worker_state(message.payload)
        assert isinstance(state, WorkerState)
        self.online[state.worker] = state.online

    async def ask(self, correlation: bytes, target: str = "cloud", **changes: object) -> None:
        payload = encode_request(
            make_request(len(self.replies), agent="site-a", **changes), jpeg_of(grey_picture(80, 64, 64))
        )
        await self.session.publish(
            Outgoing(
                topics.request(target, "m"),
                payload,
                response_topic=topics.reply("site-a"),
                correlation=correlation,
                expiry_s=5,
                properties={"traceparent": "00-ab-cd-01"},
            )
        )

    def reply_to(self, correlation: bytes) -> Reply:
        reply = decode_reply(self.replies[correlation].payload)
        assert isinstance(reply, Reply)
        return reply


async def bridge_stands(agent: Agent, beyond: MqttTransport) -> None:
    """Return once the site hears of a worker in the cloud; its state is retained, for a bridge that comes later."""
    state = b'{"worker": "w2", "online": true}'
    await beyond.publish(Outgoing(topics.worker("w2"), state, qos=1, retain=True))
    await until(lambda: "w2" in agent.online)


async def test_a_request_of_an_agent_on_site_is_answered_across_the_bridge_with_its_properties(
    sites: Sites, worker: WorkerService
) -> None:
    agent = Agent(sites)
    async with running(agent.session):
        await until(lambda: agent.online == {"w1": True})
        await agent.ask(b"\x00\xff1", budget_ms=5000.0)
        await until(lambda: len(agent.replies) == 1)
        assert agent.reply_to(b"\x00\xff1").refused is None
        assert agent.replies[b"\x00\xff1"].properties == {"traceparent": "00-ab-cd-01"}
        await agent.ask(b"2", budget_ms=0.5)
        await until(lambda: len(agent.replies) == 2)
        assert agent.reply_to(b"2").refused is Refusal.INFEASIBLE


async def test_an_agent_that_comes_later_finds_the_workers_beyond_the_bridge_and_hears_their_goodbye(
    sites: Sites, worker: WorkerService
) -> None:
    first = Agent(sites)
    async with running(first.session):
        await until(lambda: first.online == {"w1": True})
        second = Agent(sites)
        async with running(second.session):
            await until(lambda: second.online == {"w1": True})
            worker.stop()
            await until(lambda: first.online == second.online == {"w1": False})


async def test_only_what_the_bridge_names_leaves_the_site_and_comes_to_it(sites: Sites) -> None:
    agent, elsewhere, beyond = Agent(sites), sites.in_the_cloud("viewer"), sites.in_the_cloud("worker")
    left: list[str] = []
    beyond.subscribe("foveate/v1/req/#", lambda message: left.append(message.topic))
    elsewhere.subscribe(topics.ANY_RESULT, lambda message: left.append(message.topic))
    async with running(agent.session, beyond, elsewhere):
        await bridge_stands(agent, beyond)
        await agent.session.publish(Outgoing(topics.result("plaza"), b"{}"))
        await agent.session.publish(Outgoing(topics.worker("edge1"), b'{"worker": "edge1", "online": true}', qos=1))
        for target in ("edge", "edge@hall", "cloud"):
            await agent.ask(target.encode(), target=target)
        await beyond.publish(Outgoing(topics.reply("site-b"), b"theirs", correlation=b"theirs"))
        await beyond.publish(Outgoing(topics.reply("site-a"), b"ours", correlation=b"ours"))
        await until(lambda: left != [] and b"ours" in agent.replies)
    assert left == [topics.request("cloud", "m")]
    assert set(agent.replies) == {b"ours"}


async def test_the_bridge_comes_back_by_itself_and_brings_nothing_from_before(sites: Sites) -> None:
    agent = Agent(sites)
    async with running(agent.session):
        beyond = sites.in_the_cloud("worker")
        got: list[Message] = []
        beyond.subscribe(topics.request("cloud", "m"), got.append)
        async with running(beyond):
            await bridge_stands(agent, beyond)
            await agent.ask(b"1")
            await until(lambda: len(got) == 1)
            await asyncio.to_thread(sites.cloud.stop)
            await agent.ask(b"2")
            await asyncio.to_thread(sites.cloud.start)
            await until(lambda: beyond.state.connects == 2 and beyond.state.connected)

            async def ask_until_heard() -> None:
                while len(got) < 2:
                    await agent.ask(b"3")
                    await asyncio.sleep(0.1)

            await asyncio.wait_for(ask_until_heard(), 15)
    assert [message.correlation for message in got][:2] == [b"1", b"3"]
