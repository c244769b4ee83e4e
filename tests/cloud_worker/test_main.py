"""A worker process with the real model and a real broker."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from cloud_worker.announce import MISSED_BEATS
from cloud_worker.main import _load, _Process, serve
from cloud_worker.settings import ServedModel, WorkerSettings
from pipeline.errors import ModelError
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from pipeline.wire.codec import decode_reply, decode_worker_state, encode_request
from pipeline.wire.messages import Reply, Request, WireCrop, WorkerState
from tests.support.brokers import HOST, Embedded
from tests.support.detectors import jpeg_of
from tests.support.onnx_models import brightness_detector, entry, save
from tests.support.open_inference import Behaviour, open_inference_server

CLIP = Path(__file__).resolve().parents[2] / "sample_videos" / "plaza.mp4"
PROGRAM = """
import asyncio, sys
from cloud_worker.main import serve
from cloud_worker.settings import ServedModel, WorkerSettings
from pipeline.transport.settings import MqttSettings
settings = WorkerSettings(models=(ServedModel("nanodet-g"),), worker=sys.argv[2])
asyncio.run(serve(settings, MqttSettings("127.0.0.1", int(sys.argv[1]))))
"""


@contextlib.contextmanager
def worker_process(port: int, name: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(port), name])
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


class Client:
    """A requester on the real broker; ``replies`` and ``states`` in the order of arrival."""

    def __init__(self, port: int) -> None:
        self.transport = MqttTransport(MqttSettings(HOST, port))
        self.replies: dict[bytes, Reply] = {}
        self.states: dict[str, WorkerState] = {}
        self._changed = asyncio.Event()
        self.transport.subscribe(topics.reply("a1"), self._on_reply)
        self.transport.subscribe(topics.ANY_WORKER, self._on_state)

    def _on_reply(self, message: Message) -> None:
        reply = decode_reply(message.payload)
        assert isinstance(reply, Reply)
        assert message.correlation is not None
        assert message.correlation not in self.replies
        self.replies[message.correlation] = reply
        self._changed.set()

    def _on_state(self, message: Message) -> None:
        state = decode_worker_state(message.payload)
        assert isinstance(state, WorkerState)
        self.states[state.worker] = state
        self._changed.set()

    async def until(self, name: str, *, online: bool) -> None:
        async with asyncio.timeout(40):
            while name not in self.states or self.states[name].online is not online:
                self._changed.clear()
                await self._changed.wait()

    async def ask(self, request: Request, jpeg: bytes) -> Reply:
        correlation = str(request.seq).encode()
        await self.transport.publish(
            Outgoing(
                topics.request("cloud", request.model),
                encode_request(request, jpeg),
                response_topic=topics.reply("a1"),
                correlation=correlation,
            )
        )
        async with asyncio.timeout(40):
            while correlation not in self.replies:
                self._changed.clear()
                await self._changed.wait()
        return self.replies[correlation]


@contextlib.asynccontextmanager
async def client(port: int) -> AsyncIterator[Client]:
    made = Client(port)
    task = asyncio.create_task(made.transport.run())
    await made.transport.wait_connected()
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def request_for(image: Image, seq: int, crops: list[WireCrop]) -> Request:
    height, width = image.shape[:2]
    return Request(
        agent="a1", camera="plaza", epoch=1, seq=seq, budget_ms=30_000.0, weight=1.0,
        kind="frame" if len(crops) == 1 else "mosaic", frame_width=width, frame_height=height,
        crops=crops, model="nanodet-g", min_score=0.5,
    )  # fmt: skip


def first_frame() -> Image:
    video = cv2.VideoCapture(str(CLIP))
    try:
        found, image = video.read()
    finally:
        video.release()
    assert found, f"{CLIP} cannot be read"
    return image  # type: ignore[no-any-return]  # cv2 has no types here


async def test_people_are_found_crops_agree_with_the_whole_and_a_signal_ends_the_worker_properly() -> None:
    image = first_frame()
    height, width = image.shape[:2]
    half = width // 2
    broker = Embedded()
    with broker, worker_process(broker.port, "w-real") as process:
        async with client(broker.port) as asking:
            await asking.until("w-real", online=True)
            state = asking.states["w-real"]
            assert [(model.name, bool(model.version)) for model in state.models] == [("nanodet-g", True)]
            whole = WireCrop((0, 0, width, height), (0, 0, width, height))
            reply = await asking.ask(request_for(image, 1, [whole]), jpeg_of(image))
            assert reply.refused is None, reply.detail
            [found] = reply.detections
            people = [each for each in found if each.label == "person"]
            assert len(people) >= 3
            assert 0 < reply.infer_ms <= reply.total_ms
            halves = [
                WireCrop((0, 0, half, height), (0, 0, half, height)),
                WireCrop((half, 0, width - half, height), (half, 0, width - half, height)),
            ]
            split = await asking.ask(request_for(image, 2, halves), jpeg_of(image))
            assert split.refused is None, split.detail
            moved = [
                (box[0] + left, box[1], box[2] + left, box[3])
                for left, crop in zip((0, half), split.detections, strict=True)
                for box in (each.box for each in crop if each.label == "person")
            ]
            clear_of_seam = [each.box for each in people if each.box[2] < half or each.box[0] >= half]
            assert len(clear_of_seam) >= 2
            assert all(any(box == pytest.approx(other, abs=0.1) for other in moved) for box in clear_of_seam)
            process.send_signal(signal.SIGTERM)
            await asking.until("w-real", online=False)
            assert await asyncio.to_thread(process.wait, 5) == 0


async def test_a_model_that_is_not_known_ends_the_start_before_anything_is_announced() -> None:
    settings = WorkerSettings(models=(ServedModel("nanodet-z"),))
    with pytest.raises(ModelError, match="nanodet-z"):
        await serve(settings, MqttSettings(HOST, 1))


def test_a_model_on_an_inference_server_is_loaded_and_warmed_like_one_that_runs_here(tmp_path: Path) -> None:
    model = brightness_detector()
    save(tmp_path, entry(inputs={"scale": 1.0, "largest_px": (96, 128)}), model)
    behaviour = Behaviour()
    with open_inference_server(model.SerializeToString(), behaviour) as url:
        settings = WorkerSettings(models=(ServedModel("fake", url=url),), max_batch=3)
        detectors, prepared = _load(settings.models[0], settings, tmp_path)
        assert {(each.bucket, each.batch) for each in prepared.run_times} == {
            (Size(128, 96), 1), (Size(64, 48), 1), (Size(64, 48), 2), (Size(64, 48), 3)
        }  # fmt: skip
        warmed = behaviour.infers
        picture = np.zeros((64, 64, 3), np.uint8)
        picture[8:16, 8:16] = 255
        [found] = detectors["fake"].detect([picture], 0.5)
        np.testing.assert_allclose(found.xyxy, [[8, 8, 16, 16]], atol=0.1)
        assert behaviour.infers == warmed + 1


async def test_an_inference_server_that_is_not_there_ends_the_start_in_one_sentence(tmp_path: Path) -> None:
    save(tmp_path, entry(), brightness_detector())
    settings = WorkerSettings(models=(ServedModel("fake", (64, 64), "http://127.0.0.1:1/v2/models/fake"),))
    with pytest.raises(ModelError, match=r"Cannot use the model at \S+/fake: the server cannot be reached"):
        await serve(settings, MqttSettings(HOST, 1), tmp_path)


async def test_a_signal_at_the_very_moment_at_which_the_model_is_loaded_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def loaded(process: _Process, *_: object) -> object:
        process.stopped.set()
        return {}, None

    monkeypatch.setattr("cloud_worker.main._loaded", loaded)
    monkeypatch.setattr("cloud_worker.main.MqttTransport", lambda *_, **__: pytest.fail("it begins to serve"))
    await serve(WorkerSettings(models=(ServedModel("nanodet-g"),)), MqttSettings(HOST, 1))


async def test_a_broker_misses_a_workers_host_within_the_three_heartbeats_after_which_agents_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_for: list[MqttSettings] = []

    class Reached(Exception):  # noqa: N818 - ends the start where the session would be made
        pass

    def session(settings: MqttSettings, **_: object) -> MqttTransport:
        asked_for.append(settings)
        raise Reached

    monkeypatch.setattr("cloud_worker.main._load", lambda *_: ({}, None))
    monkeypatch.setattr("cloud_worker.main.MqttTransport", session)
    settings = WorkerSettings(models=(ServedModel("nanodet-g"),))
    with pytest.raises(Reached):
        await serve(settings, MqttSettings(HOST, 1))
    assert 1.5 * asked_for[0].keepalive_s <= MISSED_BEATS * settings.heartbeat_s
