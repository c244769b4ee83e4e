"""What a worker answers over HTTP: whether it lives, whether it is ready, and its figures."""

import asyncio
import http.client
import socket
import threading

import pytest

from cloud_worker import health
from cloud_worker.health import Health, health_served
from pipeline.errors import ConfigError
from pipeline.wire.messages import WorkerState
from tests.support.brokers import free_port

HOST = "127.0.0.1"
STATE = WorkerState(worker="w", online=True, queue_length=3, queue_capacity=64)
READY = Health(lambda: STATE, lambda: "")


def ask(port: int, path: str, method: str = "GET", host: str = HOST) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


async def asked(port: int, path: str, method: str = "GET", host: str = HOST) -> tuple[int, str]:
    return await asyncio.to_thread(ask, port, path, method, host)


async def test_a_worker_that_serves_is_alive_and_ready_and_tells_its_figures() -> None:
    port = free_port()
    with health_served(READY, HOST, port):
        assert await asked(port, "/healthz") == (200, "alive\n")
        assert await asked(port, "/readyz") == (200, "ready\n")
        status, told = await asked(port, "/metrics")
        assert status == 200
        assert "foveate_worker_queue_length 3.0" in told
        assert "process_resident_memory_bytes" in told


async def test_a_worker_that_is_not_ready_says_why_and_is_alive_all_the_same() -> None:
    port = free_port()
    with health_served(Health(lambda: None, lambda: "the model is being loaded"), HOST, port):
        assert await asked(port, "/readyz") == (503, "the model is being loaded\n")
        assert (await asked(port, "/healthz"))[0] == 200
        status, told = await asked(port, "/metrics")
        assert (status, "foveate_worker" in told) == (200, False)


async def test_what_is_asked_is_looked_up_on_the_event_loop() -> None:
    port, loop, asked_on = free_port(), asyncio.get_running_loop(), set()

    def fault() -> str:
        asked_on.add(asyncio.get_running_loop())
        return ""

    def state() -> WorkerState:
        asked_on.add(asyncio.get_running_loop())
        return STATE

    with health_served(Health(state, fault), HOST, port):
        await asked(port, "/readyz")
        await asked(port, "/metrics")
    assert asked_on == {loop}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_an_event_loop_that_hangs_fails_every_check(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ANSWER_WITHIN_S", 0.05)
    port = free_port()
    with health_served(READY, HOST, port):
        answers: list[tuple[int, str]] = []
        asking = threading.Thread(target=lambda: answers.append(ask(port, path)))
        asking.start()
        asking.join(10)  # on the event loop, which it holds up
    assert answers == [(503, "the event loop has not answered within 0.05 s\n")]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_a_check_that_meets_the_end_of_the_event_loop_fails_without_a_traceback(
    path: str, capfd: pytest.CaptureFixture[str]
) -> None:
    port, answers = free_port(), list[tuple[int, str]]()
    asking = threading.Thread(target=lambda: answers.append(ask(port, path)))

    async def worker() -> None:
        with health_served(READY, HOST, port):
            asking.start()
            asking.join(0.3)  # on the event loop, which then ends before it has answered

    asyncio.run(worker())
    asking.join(10)
    assert [status for status, _ in answers] == [503]
    assert capfd.readouterr().err == ""


async def test_other_pages_and_methods_are_not_there() -> None:
    port = free_port()
    with health_served(READY, HOST, port):
        assert (await asked(port, "/"))[0] == 404
        assert (await asked(port, "/metrics", "POST"))[0] == 405
        assert (await asked(port, "/healthz", "HEAD"))[0] == 200


async def test_after_the_block_the_port_is_free_again() -> None:
    port = free_port()
    with health_served(READY, HOST, port):
        await asked(port, "/healthz")
    for thread in threading.enumerate():
        if thread.name == "health":
            await asyncio.to_thread(thread.join, 5)
    with pytest.raises(OSError, match="refused"):
        await asked(port, "/healthz")


async def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=rf"metrics cannot be served on 127\.0\.0\.1:{port}"),
            health_served(READY, HOST, port),
        ):
            pass


async def test_without_a_port_nothing_is_served() -> None:
    before = threading.active_count()
    with health_served(READY, HOST, None):
        assert threading.active_count() == before
