"""The health checks of the images, against a real page and a real broker."""

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from cloud_worker.announce import offline
from edge_agent.status.access import AccessSettings
from edge_agent.status.snapshot import AgentStatus
from foveate.config.document import parse_document
from foveate.config.load import configure
from foveate.config.models import Configuration
from pipeline.transport.base import Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from pipeline.wire.codec import encode_worker_state
from pipeline.wire.messages import WorkerState
from tests.support.brokers import HOST, Embedded, free_port, running
from tests.support.browser import serving
from tests.support.status_samples import FakeStatusSource, agent

FILE = Path(__file__).resolve().parents[2] / "deploy" / "healthcheck.py"


def load_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("healthcheck", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


healthcheck = load_module()


def configuration(text: str) -> Configuration:
    return configure(parse_document(text, "test", {}), None, {})


def page_at(port: int, token: str = "secret") -> Configuration:
    return configuration(f"web: {{host: 0.0.0.0, port: {port}, token: {token}}}")


def source_of(status: AgentStatus) -> FakeStatusSource:
    source = FakeStatusSource()
    source.current = status
    return source


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    started = Embedded()
    started.start()
    yield started
    started.stop()


async def test_an_edge_that_is_ready_is_healthy_and_its_token_opens_the_page() -> None:
    async with serving(source_of(agent()), AccessSettings(token="secret")) as port:
        assert await asyncio.to_thread(healthcheck.edge_fault, page_at(port)) == ""


async def test_an_edge_that_is_not_ready_says_why() -> None:
    waiting = msgspec.structs.replace(agent(), ready=False, ready_reason="no camera is live")
    async with serving(source_of(waiting), AccessSettings(token="secret")) as port:
        assert await asyncio.to_thread(healthcheck.edge_fault, page_at(port)) == "no camera is live"


async def test_a_wrong_token_is_no_health() -> None:
    async with serving(source_of(agent()), AccessSettings(token="secret")) as port:
        assert "401" in await asyncio.to_thread(healthcheck.edge_fault, page_at(port, "other"))


def test_a_page_that_does_not_answer_is_no_health() -> None:
    assert "does not answer" in healthcheck.edge_fault(page_at(free_port()))


async def announced(broker: Embedded, message: Outgoing) -> str:
    """The fault of the worker ``w1`` after an announcement."""
    session = MqttTransport(MqttSettings(HOST, broker.port))
    async with running(session):
        await session.publish(message)
    settings = f"broker: {{url: 'mqtt://{HOST}:{broker.port}'}}\nworker: {{name: w1}}"
    return str(await healthcheck.worker_fault(configuration(settings)))


async def test_a_worker_is_healthy_while_it_is_announced_as_online(broker: Embedded) -> None:
    online = encode_worker_state(WorkerState(worker="w1", online=True))
    assert await announced(broker, Outgoing(topics.worker("w1"), online, qos=1, retain=True)) == ""
    assert await announced(broker, offline("w1")) == "worker w1 is announced as offline"
    assert "cannot be read" in await announced(broker, Outgoing(topics.worker("w1"), b"?", qos=1, retain=True))


async def test_a_worker_that_nobody_has_heard_of_is_not_healthy(
    broker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healthcheck, "LIMIT_S", 1.0)
    settings = f"broker: {{url: 'mqtt://{HOST}:{broker.port}'}}\nworker: {{name: unheard}}"
    assert "has not announced itself" in await healthcheck.worker_fault(configuration(settings))


async def test_a_worker_without_a_configured_name_cannot_be_checked() -> None:
    assert "worker.name" in await healthcheck.worker_fault(configuration("worker: {threads: 1}"))


def test_a_faulty_configuration_is_told_in_one_sentence(tmp_path: Path) -> None:
    fault = healthcheck.main("edge", str(tmp_path / "absent.yaml"))
    assert "absent.yaml cannot be read" in fault
    assert "\n" not in fault
