"""Two worker processes under load, one of which is told to stop."""

import asyncio
import contextlib
import http.client
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from pipeline.wire.codec import decode_reply, encode_request
from pipeline.wire.messages import Reply
from tests.support.brokers import HOST, Mosquitto, free_port, quick_backoff, running, until
from tests.support.detectors import grey_picture, jpeg_of
from tests.support.workers import make_request

PROGRAM = """
import asyncio, sys
from cloud_worker.main import serve
from cloud_worker.settings import ServedModel, WorkerSettings
from pipeline.transport.settings import MqttSettings
models = (ServedModel("nanodet-g"),)
own = {"worker": sys.argv[2], "metrics_port": int(sys.argv[3])}
settings = WorkerSettings(models, batch="none", coalesce=False, cache_ttl_s=0, **own)
asyncio.run(serve(settings, MqttSettings("127.0.0.1", int(sys.argv[1]))))
"""
REQUESTS = 120
PATIENCE_S = 40.0

pytestmark = pytest.mark.mosquitto


@pytest.fixture
def broker(mosquitto: str) -> Iterator[Mosquitto]:
    made = Mosquitto(mosquitto)
    made.start()
    yield made
    made.stop()


class Worker:
    """A worker process, and where it is asked how it is."""

    def __init__(self, broker_port: int, name: str) -> None:
        self._port = free_port()
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(broker_port), name, str(self._port)])

    def ready(self) -> tuple[int, str]:
        """What its readiness check says; (0, "") where nobody answers."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return answer.status, answer.read().decode().strip()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    async def stopped(self) -> int:
        """Tell it to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, 10)


@contextlib.contextmanager
def worker_process(broker: Mosquitto, name: str) -> Iterator[Worker]:
    worker = Worker(broker.port, name)
    try:
        yield worker
    finally:
        worker.process.kill()
        worker.process.wait(10)


class Agent:
    """Asks, and collects the replies by correlation data."""

    def __init__(self, broker: Mosquitto) -> None:
        self.session = MqttTransport(MqttSettings(HOST, broker.port), None, quick_backoff())
        self.replies: dict[bytes, list[Reply]] = {}
        self.session.subscribe(topics.reply("a1"), self._hear)

    def _hear(self, message: Message) -> None:
        reply = decode_reply(message.payload)
        assert isinstance(reply, Reply)
        assert message.correlation is not None
        self.replies.setdefault(message.correlation, []).append(reply)

    async def ask(self, seq: int) -> bytes:
        payload = encode_request(
            make_request(seq, model="nanodet-g", budget_ms=3000.0), jpeg_of(grey_picture(seq % 200, 64, 64))
        )
        request, correlation = topics.request("cloud", "nanodet-g"), b"%d" % seq
        await self.session.publish(
            Outgoing(request, payload, response_topic=topics.reply("a1"), correlation=correlation)
        )
        return correlation


async def test_of_two_workers_under_load_one_is_stopped_and_every_request_has_one_reply(broker: Mosquitto) -> None:
    agent = Agent(broker)
    with worker_process(broker, "w0") as first, worker_process(broker, "w1") as second:
        await until(lambda: first.ready() == second.ready() == (200, "ready"), PATIENCE_S)
        async with running(agent.session):
            sent, stopping = [], None
            for seq in range(REQUESTS):
                sent.append(await agent.ask(seq))
                if seq == REQUESTS // 3:
                    stopping = asyncio.create_task(first.stopped())
                await asyncio.sleep(0.015)
            assert stopping is not None
            assert await stopping == 0
            await until(lambda: len(agent.replies) == len(sent))
        assert second.ready() == (200, "ready")
        assert first.ready() == (0, "")
    replies = [agent.replies[one] for one in sent]
    assert [len(each) for each in replies] == [1] * REQUESTS
    assert {reply.refused for (reply,) in replies} == {None}
    by = Counter(reply.worker for (reply,) in replies)
    assert by["w0"] > 0
    assert by["w1"] > REQUESTS / 2


async def test_a_worker_that_is_stopped_while_it_loads_its_model_ends_in_order(broker: Mosquitto) -> None:
    with worker_process(broker, "w0") as worker:
        await until(lambda: worker.ready() == (503, "the model is being loaded"), PATIENCE_S)
        assert await worker.stopped() == 0
