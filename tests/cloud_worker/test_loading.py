"""Models are served as they come: whoever loads one keeps nobody waiting."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from cloud_worker.main import Loaded, serve_as_they_come
from cloud_worker.service import Runners, WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from cloud_worker.warm_up import Prepared
from pipeline.errors import ModelError
from pipeline.timing import LoopClock
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire.codec import encode_request
from tests.support.brokers import until
from tests.support.detectors import ScriptedDetector, VirtualRunner, grey_picture, jpeg_of
from tests.support.workers import Requester, make_request


class Scene:
    """A worker that serves "m" while "n" is being loaded, on the real clock: loading blocks a real thread."""

    def __init__(self) -> None:
        self.hub = MemoryHub()
        self.requester = Requester(self.hub)
        settings = WorkerSettings((ServedModel("m"), ServedModel("n")), worker="w", heartbeat_s=0.1)
        transport, runners = MemoryTransport(self.hub), Runners(VirtualRunner(), VirtualRunner())
        detectors = {"m": ScriptedDetector("m")}
        self.service = WorkerService(settings, detectors, transport, LoopClock(), runners)
        self.loaded = threading.Event()

    def load(self) -> Loaded:
        assert self.loaded.wait(20)
        return {"n": ScriptedDetector("n")}, Prepared()

    async def run(self, load: Callable[[], Loaded]) -> None:
        await self.service.run(serve_as_they_come(self.service, [load], lambda: MemoryTransport(self.hub)))

    async def ask(self, seq: int, model: str) -> bytes:
        request = make_request(seq, model=model, budget_ms=5000.0)
        payload = encode_request(request, jpeg_of(grey_picture(8 * seq)))
        return await self.requester.send_bytes(payload, str(seq), model)


async def test_a_model_is_served_while_another_is_loaded_and_that_one_as_soon_as_it_is_ready() -> None:
    scene = Scene()
    running = [asyncio.create_task(scene.run(scene.load)), asyncio.create_task(scene.requester.transport.run())]
    await scene.requester.transport.wait_connected()
    await until(lambda: len(scene.hub._sessions) == 2)
    first = await scene.ask(1, "m")
    await until(lambda: first in scene.requester.replies)
    assert scene.requester.reply_to(first).refused is None
    await scene.ask(2, "n")
    await asyncio.sleep(0)
    assert [model.name for model in scene.service.worker_state().models] == ["m"]
    assert scene.service.statistics().received == 1, "what it does not serve yet is left to others"
    scene.loaded.set()
    await until(lambda: len(scene.hub._sessions) == 3)
    later = await scene.ask(3, "n")
    await until(lambda: later in scene.requester.replies)
    assert (scene.requester.reply_to(later).model, scene.requester.reply_to(later).refused) == ("n", None)
    assert [model.name for model in scene.service.worker_state().models] == ["m", "n"]
    sessions = [session for session in scene.hub._sessions if session is not scene.requester.transport]
    scene.service.stop()
    last = [await scene.ask(4, "m"), await scene.ask(5, "n")]
    await asyncio.wait_for(running[0], 10)
    assert [scene.requester.reply_to(one).refused for one in last] == [None, None]
    assert not [one for session in sessions for one in session.subscriptions if one.topic_filter.startswith("$share")]
    assert len(scene.hub._sessions) == 1, "the session of the later model ends with the worker"
    running[1].cancel()


async def test_a_model_that_is_ready_when_the_worker_stops_is_not_served_any_more() -> None:
    scene = Scene()
    running = asyncio.create_task(scene.run(scene.load))
    await until(lambda: len(scene.hub._sessions) == 1)
    scene.service.stop()
    scene.loaded.set()
    await asyncio.wait_for(running, 10)
    assert [model.name for model in scene.service.worker_state().models] == ["m"]


async def test_a_worker_that_is_stopped_does_not_wait_for_a_model_that_is_being_loaded() -> None:
    scene = Scene()
    running = asyncio.create_task(scene.run(scene.load))
    await until(lambda: len(scene.hub._sessions) == 1)
    scene.service.stop()
    await asyncio.wait_for(running, 10)
    scene.loaded.set()


async def test_a_model_that_cannot_be_loaded_ends_the_worker_with_its_sentence() -> None:
    def load() -> Loaded:
        raise ModelError("the file is gone")

    with pytest.raises(ModelError, match="the file is gone"):
        await Scene().run(load)
