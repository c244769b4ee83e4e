"""A release on its real way: signed, in chunks at a real broker, to an edge that proves it with onnxruntime."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge_agent.releases.service import ReleaseService
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.releases.slot import ModelSlot, Staged
from pipeline.releases.manifest import Manifest
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import Release, TrustedKeys
from pipeline.timing import LoopClock
from pipeline.transport.memory import MemoryHub
from tests.support.brokers import Bench, Embedded, Mosquitto, running, until
from tests.support.detectors import grey_picture
from tests.support.onnx_models import answer, fake_detector
from tests.support.releases import KEY, Named, manifest_of

KINDS = ["embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)]
LIMITS = "max_packet_size 8454144\npersistence false\nmax_queued_messages 100\nmax_inflight_messages 20"
"""Those of deploy/mosquitto/mosquitto.conf, which drop what of a burst is more than 120 messages."""


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    broker = Embedded()
    with broker:
        yield broker


@pytest.fixture(params=KINDS)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    if request.param == "embedded":
        yield Bench(request.getfixturevalue("embedded"))
    else:
        broker = Mosquitto(request.getfixturevalue("mosquitto"), LIMITS)
        broker.start()
        yield Bench(broker)
        broker.stop()


@pytest.fixture(autouse=True)
def _talkative_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers on this machine say soon what they retain."""
    monkeypatch.setattr("pipeline.releases.publisher.RETAINED_WITHIN_S", 0.2)


def model(padding_bytes: int = 0) -> bytes:
    """A model that finds one person in every picture; its file is made larger by what means nothing."""
    made = fake_detector(*answer([(9, 0, 0.9, (1, 1, 1, 1))]), metadata={"padding": "x" * padding_bytes})
    return bytes(made.SerializeToString())


@contextlib.asynccontextmanager
async def serving(bench: Bench, folder: Path) -> AsyncIterator[tuple[ReleaseService, ModelSlot]]:
    """An agent's releases at work."""
    control, slot = bench.session(), ModelSlot("yard", Staged(Named()))
    settings = ReleaseSettings((KEY.public,))
    service = ReleaseService(settings, [slot], {}, folder, control, bench.session, LoopClock())
    await service.recall()
    working = asyncio.create_task(service.run())
    async with running(control):
        yield service, slot
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await service.save()


async def publish(bench: Bench, release: Release, file: bytes) -> None:
    session = bench.session()
    publisher = ReleasePublisher(session, TrustedKeys([KEY.public]))
    async with running(session):
        await publisher.publish(release, file)


async def test_an_edge_that_was_offline_has_the_newest_model_from_the_broker_alone_and_keeps_it(
    bench: Bench, tmp_path: Path
) -> None:
    older, newer = model(), model(6_000_000)
    await publish(bench, KEY.sign(manifest_of(older, version="1")), older)
    release = KEY.sign(manifest_of(newer, version="2", minutes=1))
    assert release.manifest.chunks > 120
    await publish(bench, release, newer)
    async with serving(bench, tmp_path) as (service, slot):
        await until(lambda: slot.candidate is not None)
        assert slot.candidate is not None
        assert slot.candidate.title == "own@2"
        (found,) = slot.candidate.detector.detect([grey_picture(100)], 0.5)
        assert found.label.tolist() == ["person"]
        slot.promote()
    async with serving(bench, tmp_path) as (service, slot):
        assert slot.current.title == "own@2"
        assert set(service.counters.values()) == {0}


WRONG = {
    "no model": (b"not a model at all" * 100, {}, "is not an ONNX file"),
    "another head": (model(), {"output": {"head": "unheard-of"}}, "unknown output head"),
    "another shape": (model(), {"output": {"bins": 5}}, "needs floats of shape"),
    "another input": (model(), {"input": {"name": "pixels"}}, "declares the one input"),
    "another size": (model(), {"size": (32, 32)}, "are asked of it"),
}


@pytest.mark.parametrize(("file", "changes", "words"), WRONG.values(), ids=WRONG)
async def test_a_file_that_does_not_keep_its_contract_is_refused_and_the_camera_goes_on(
    file: bytes, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    bench = Bench(MemoryHub())
    await publish(bench, KEY.sign(broken(manifest_of(file), changes)), file)
    async with serving(bench, tmp_path) as (service, slot):
        await until(lambda: bool(service.remark))
        assert words in service.remark
        assert service.counters["releases_refused"] == 1
        assert slot.serving(use_candidate=True) is slot.general


def broken(manifest: Manifest, changes: dict[str, Any]) -> Manifest:
    """A manifest whose contract says something else."""
    parts = {
        part: msgspec.structs.replace(getattr(manifest.entry, part), **changes[part])
        for part in ("input", "output")
        if part in changes
    }
    entry = msgspec.structs.replace(manifest.entry, **parts)
    return msgspec.structs.replace(manifest, entry=entry, input_size=changes.get("size", manifest.input_size))
