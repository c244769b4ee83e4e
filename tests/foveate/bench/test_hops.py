"""What the way over a broker adds is the round trip less what the worker says that it took."""

import asyncio
from collections.abc import Iterator

import pytest

from cloud_worker.service import WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from foveate.bench import hops
from foveate.bench.hop_parts import Trip
from foveate.bench.reference import LARGE
from pipeline.geometry import Size
from pipeline.timing import MonotonicClock
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire.messages import Reply
from tests.support.brokers import Embedded
from tests.support.detectors import ScriptedDetector, grey_picture, jpeg_of

SHOWN = [hops.Picture(jpeg_of(grey_picture(8 * (i + 1))), Size(64, 64)) for i in range(10)]


@pytest.fixture(scope="module")
def mqtt() -> Iterator[MqttSettings]:
    with Embedded() as broker:
        assert isinstance(broker, Embedded)
        yield MqttSettings("127.0.0.1", broker.port)


def worker(mqtt: MqttSettings, **settings: object) -> WorkerService:
    chosen = WorkerSettings(models=(ServedModel(LARGE[0]),), **settings)  # type: ignore[arg-type]
    detector = ScriptedDetector()
    detector.name = LARGE[0]
    return WorkerService(chosen, {LARGE[0]: detector}, MqttTransport(mqtt), MonotonicClock())


async def test_pictures_and_probes_are_counted_apart_and_the_first_ones_left_out(
    mqtt: MqttSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hops, "PER_S", 40.0)
    monkeypatch.setattr(hops, "LAST_REPLY_S", 0.5)
    service = worker(mqtt)
    serving = asyncio.create_task(service.run())
    trips = hops.Trips()
    await hops.trip(mqtt, SHOWN, trips)
    service.stop()
    await serving
    counted = len(SHOWN) - hops.WARM_REQUESTS
    assert len(trips.picture_ms) + trips.lost == counted
    assert len(trips.probe_ms) == len(trips.worker_ms) == len(trips.picture_ms) > 0
    assert min(trips.picture_ms) > 0
    done = service.statistics()
    assert (done.received, done.echoed, done.cached) == (2 * len(SHOWN), len(SHOWN), 0)


async def test_a_round_that_follows_another_within_seconds_is_answered_too(
    mqtt: MqttSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hops, "PER_S", 40.0)
    monkeypatch.setattr(hops, "LAST_REPLY_S", 0.3)
    service = worker(mqtt, cache_ttl_s=0.0)
    serving = asyncio.create_task(service.run())
    trips = hops.Trips()
    for _ in range(2):
        await hops.trip(mqtt, SHOWN, trips)
    service.stop()
    await serving
    assert (len(trips.picture_ms), trips.lost) == (2 * (len(SHOWN) - hops.WARM_REQUESTS), 0)


async def test_what_the_worker_refuses_is_counted_as_lost(mqtt: MqttSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hops, "PER_S", 40.0)
    monkeypatch.setattr(hops, "LAST_REPLY_S", 0.3)
    service = worker(mqtt, pixel_limit=100)
    serving = asyncio.create_task(service.run())
    trips = hops.Trips()
    await hops.trip(mqtt, SHOWN, trips)
    service.stop()
    await serving
    assert (trips.picture_ms, trips.probe_ms) == ([], [])
    assert trips.lost == len(SHOWN) - hops.WARM_REQUESTS


def test_the_way_is_the_round_trip_less_the_workers_total() -> None:
    reply = Reply(
        agent="a", camera="c", epoch=0, seq=1, worker="w", model="m", model_version="1", detections=[],
        queue_ms=1.0, batch_wait_ms=0.0, infer_ms=50.0, total_ms=60.0,
    )  # fmt: skip
    assert Trip(62.5, reply).way_ms == pytest.approx(2.5)
