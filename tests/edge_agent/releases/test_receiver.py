import asyncio
import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from edge_agent.releases.disk import Disk
from edge_agent.releases.settings import ReleaseSettings
from pipeline.releases.manifest import Audience, Manifest, revocation
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import Release, SigningKey, TrustedKeys
from pipeline.timing import run_virtual
from pipeline.transport.base import Outgoing
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire import topics
from tests.support.brokers import running, until
from tests.support.releases import KEY, NOON, Edge, at, manifest_of, released

T = TypeVar("T")
FILE, NEWER = b"a model" * 10_000, b"a better model" * 10_000


async def publish(hub: MemoryHub, release: Release, file: bytes) -> None:
    session = MemoryTransport(hub)
    publisher = ReleasePublisher(session, TrustedKeys([KEY.public]))
    async with running(session):
        await publisher.publish(release, file)


async def say(hub: MemoryHub, message: bytes, topic: str = topics.model("own")) -> None:
    """Publish and retain any message where releases are."""
    session = MemoryTransport(hub)
    async with running(session):
        await session.publish(Outgoing(topic, message, retain=True))


def candidates(edge: Edge) -> list[str]:
    return [slot.candidate.title if slot.candidate is not None else "" for slot in edge.slots]


async def proven(edge: Edge, title: str) -> None:
    await until(lambda: title in candidates(edge))


def test_a_release_becomes_the_candidate_of_the_cameras_that_it_is_for(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        audience = Audience(groups=("outdoor",), site="north")
        settings = ReleaseSettings((KEY.public,), site="north")
        groups = {"yard": "outdoor", "hall": "indoor", "gate": "outdoor"}
        async with at(hub, tmp_path, cameras=list(groups), groups=groups, settings=settings) as edge:
            await publish(hub, KEY.sign(manifest_of(FILE, audience=audience)), FILE)
            await proven(edge, "own@1")
            assert candidates(edge) == ["own@1", "", "own@1"]
            assert edge.receiver.counters["releases_offered"] == 2

    run_virtual(main())


def test_a_release_for_somebody_else_is_not_even_fetched(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path) as edge:
            await publish(hub, KEY.sign(manifest_of(FILE, audience=Audience(cameras=("gate",)))), FILE)
            await asyncio.sleep(3600)
            assert candidates(edge) == [""]
            assert edge.receiver.counters["releases_refused"] == 0
        assert not (tmp_path / "files").exists()

    run_virtual(main())


def test_an_edge_that_was_offline_catches_up_from_the_broker_alone(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        await publish(hub, released(FILE), FILE)
        await publish(hub, released(NEWER, "2", minutes=1), NEWER)
        async with at(hub, tmp_path) as edge:
            await proven(edge, "own@2")
            assert not edge.refusals

    run_virtual(main())


def test_of_two_releases_in_quick_succession_the_last_wins(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path) as edge:
            await publish(hub, released(FILE), FILE)
            await say(hub, released(b"never to be had", "2", minutes=1).envelope)
            await asyncio.sleep(0.01)  # it is being fetched
            await publish(hub, released(NEWER, "3", minutes=2), NEWER)
            await proven(edge, "own@3")
            await asyncio.sleep(3600)
            assert candidates(edge) == ["own@3"]

    run_virtual(main())


def of(**changes: object) -> Manifest:
    return msgspec.structs.replace(manifest_of(FILE, version="2", minutes=5), **changes)


REFUSED = {
    "unknown key": (released(FILE, "2", 5, SigningKey.new()).envelope, "models.trusted_keys does not have"),
    "changed": (released(FILE, "2", 5).envelope.replace(b'"own.onnx"', b'"0wn.onnx"'), "its signature is wrong"),
    "no release": (b"{}", "is no signed release"),
    "another name": (KEY.sign(manifest_of(FILE, "other", minutes=5)).envelope, "it is the release of 'other'"),
    "replayed": (released(FILE, "0", minutes=-5).envelope, "sign an older model anew to go back to it"),
    "same sequence": (KEY.sign(of(sequence=released(FILE).manifest.sequence)).envelope, "is not above"),
    "too large": (KEY.sign(of(size_bytes=10**9)).envelope, "it has 1000000000 bytes, and 33554432 are allowed"),
    "leaves its folder": (
        KEY.sign(of(entry=msgspec.structs.replace(of().entry, file="../../own.onnx"))).envelope,
        "is not a name alone",
    ),
}


@pytest.mark.parametrize(("message", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_trusted_is_refused_in_one_sentence_and_changes_nothing(
    message: bytes, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path) as edge:
            await publish(hub, released(FILE), FILE)
            await proven(edge, "own@1")
            for _ in range(3):  # a broker says it again with every connection
                await say(hub, message)
            await until(lambda: edge.receiver.counters["releases_refused"] == 3)
            assert candidates(edge) == ["own@1"]
            assert words in edge.refusals[0]
            assert edge.receiver.remark == edge.refusals[0]

    with caplog.at_level(logging.WARNING):
        run_virtual(main())
    assert [record.message for record in caplog.records if words in record.message] == [caplog.records[0].message]


def test_a_model_that_fails_its_proof_is_refused_once_and_not_fetched_again(tmp_path: Path) -> None:
    async def main() -> None:
        hub, bad = MemoryHub(), b"bad model" * 1000
        async with at(hub, tmp_path) as edge:
            release = released(bad)
            await publish(hub, release, bad)
            await until(lambda: bool(edge.refusals))
            await say(hub, release.envelope)
            await asyncio.sleep(3600)
            assert edge.refusals == ["own@1 is refused: own@1 is bad."]
            await publish(hub, released(NEWER, "2", minutes=1), NEWER)
            await proven(edge, "own@2")

    run_virtual(main())


class Hanging:
    """A runner whose calls never come back."""

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.Future()


def test_a_model_that_hangs_is_refused_and_the_next_release_is_taken(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path, prover=Hanging()) as edge:
            for version, file in (("1", FILE), ("2", NEWER)):
                await publish(hub, released(file, version, minutes=int(version)), file)
                await asyncio.sleep(120)
            assert edge.refusals == [
                f"own@{version} is refused: own@{version} was not ready within 60 s: release one that is lighter."
                for version in ("1", "2")
            ]

    run_virtual(main())


def test_corrupted_chunks_are_told_and_the_file_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    async def main() -> None:
        hub, release = MemoryHub(), released(FILE)
        await publish(hub, release, FILE)
        await say(hub, b"\0" * 32768, topics.model_chunk("own", release.manifest.entry.sha256, 0))
        async with at(hub, tmp_path) as edge:
            await until(lambda: bool(edge.refusals))
            assert "are not the file that was signed; it is tried again in 30 s" in edge.refusals[0]
            assert candidates(edge) == [""]
            await publish(hub, release, FILE)
            await proven(edge, "own@1")

    run_virtual(main())


def test_an_older_model_comes_back_by_a_new_signature(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path) as edge:
            for version, minutes, file in (("1", 0, FILE), ("2", 1, NEWER), ("1", 2, FILE)):
                await publish(hub, released(file, version, minutes), file)
                await proven(edge, f"own@{version}")
                edge.slots[0].promote()
            assert edge.slots[0].current.title == "own@1"
            assert not edge.refusals

    run_virtual(main())


def test_a_revocation_takes_the_model_back_at_once_and_for_good(tmp_path: Path) -> None:
    async def main() -> None:
        hub, release = MemoryHub(), released(FILE)
        gone = KEY.sign(revocation(release.manifest, "it saw ghosts", NOON))
        async with at(hub, tmp_path) as edge:
            await publish(hub, release, FILE)
            await proven(edge, "own@1")
            edge.slots[0].promote()
            await publish(hub, gone, b"")
            await until(lambda: edge.slots[0].current is edge.slots[0].general)
            assert edge.told[-1][1].reason == "own@1 was revoked: it saw ghosts"
            await say(hub, release.envelope)
            await until(lambda: "is not above" in edge.receiver.remark)
            assert edge.slots[0].candidate is None

    run_virtual(main())


class FullDisk(Disk):
    """A disk without room for some files, until there is some."""

    full = True

    def __init__(self, where: str) -> None:
        self.where = where

    def write(self, path: Path, data: bytes) -> None:
        if self.full and path.match(self.where):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().write(path, data)


@pytest.mark.parametrize("where", ["files/*", "releases/*", "seen.json*"])
def test_a_full_disk_is_told_leaves_no_halves_and_is_tried_again(where: str, tmp_path: Path) -> None:
    async def main() -> None:
        hub, disk = MemoryHub(), FullDisk(where)
        async with at(hub, tmp_path, disk=disk) as edge:
            await publish(hub, released(FILE), FILE)
            await until(lambda: bool(edge.refusals))
            assert "No space left on device" in edge.refusals[0]
            assert "tried again in 30 s" in edge.refusals[0]
            assert not list(tmp_path.rglob(where))
            disk.full = False
            await asyncio.sleep(3600)
            await proven(edge, "own@1")

    run_virtual(main())


def test_labels_that_do_not_fit_a_camera_are_refused_for_it_alone(tmp_path: Path) -> None:
    async def main() -> None:
        hub, manifest = MemoryHub(), manifest_of(FILE, labels=("person", "car", "unicorn"))
        async with at(hub, tmp_path) as edge:
            await publish(hub, KEY.sign(manifest), FILE)
            await until(lambda: bool(edge.refusals))
            assert "knows unicorn, which general@1.0.0 does not" in edge.refusals[0]

    run_virtual(main())


def test_a_release_that_is_heard_again_while_it_is_fetched_is_not_begun_anew(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path) as edge:
            await say(hub, released(FILE).envelope)  # its chunks are awaited for 20 s
            await asyncio.sleep(15)
            await say(hub, released(FILE).envelope)
            await asyncio.sleep(10)
            assert edge.receiver.counters["releases_retried"] == 1

    run_virtual(main())


def test_a_release_that_fails_as_nobody_expected_is_refused_and_the_next_one_is_taken(tmp_path: Path) -> None:
    class Odd:
        async def run(self, call: Callable[[], T]) -> T:
            found = call()
            if getattr(found, "version", "") == "1":
                raise KeyError("weights")
            return found

    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path, prover=Odd()) as edge:
            await publish(hub, released(FILE), FILE)
            await until(lambda: bool(edge.refusals))
            assert edge.refusals == ["own@1 is refused: it cannot be taken in (KeyError: 'weights')."]
            await publish(hub, released(NEWER, "2", minutes=1), NEWER)
            await proven(edge, "own@2")

    run_virtual(main())
