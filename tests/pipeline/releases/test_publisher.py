import asyncio

import pytest

from pipeline.errors import BrokerError
from pipeline.releases.manifest import revocation
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import Release, SigningKey, TrustedKeys
from pipeline.timing import run_virtual
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire import topics
from tests.support.brokers import running
from tests.support.releases import KEY, NOON, released

FILE = bytes(range(256)) * 300
TRUSTED = TrustedKeys([KEY.public])


def publisher(hub: MemoryHub) -> tuple[ReleasePublisher, MemoryTransport]:
    session = MemoryTransport(hub)
    return ReleasePublisher(session, TRUSTED), session


async def retained(hub: MemoryHub) -> dict[str, bytes]:
    """What somebody hears who comes now."""
    heard: list[Message] = []
    session = MemoryTransport(hub)
    session.subscribe("#", heard.append)
    async with running(session):
        await asyncio.sleep(0)
    return {message.topic: message.payload for message in heard}


def chunk_topics(release: Release) -> set[str]:
    manifest = release.manifest
    return {topics.model_chunk("own", manifest.entry.sha256, number) for number in range(manifest.chunks)}


def test_whoever_comes_later_finds_the_manifest_and_all_chunks() -> None:
    async def main() -> None:
        hub = MemoryHub()
        made, session = publisher(hub)
        release = released(FILE)
        async with running(session):
            await made.publish(release, FILE)
        found = await retained(hub)
        assert found.pop(topics.model("own")) == release.envelope
        assert found.keys() == chunk_topics(release)
        assert b"".join(found[topic] for topic in sorted(found)) == FILE

    run_virtual(main())


def test_the_manifest_comes_after_its_chunks() -> None:
    async def main() -> None:
        hub = MemoryHub()
        made, session = publisher(hub)
        order: list[str] = []
        listener = MemoryTransport(hub)
        listener.subscribe("#", lambda message: order.append(message.topic))
        async with running(session, listener):
            await made.publish(released(FILE), FILE)
            await asyncio.sleep(0.01)
        assert order[-1] == topics.model("own")
        assert len(order) == 4

    run_virtual(main())


def test_the_chunks_of_a_superseded_release_go_also_where_another_process_published_it() -> None:
    async def main() -> None:
        hub = MemoryHub()
        first, second = released(FILE), released(FILE[::-1], "2", minutes=1)
        for release, file in ((first, FILE), (second, FILE[::-1])):
            made, session = publisher(hub)
            async with running(session):
                await made.publish(release, file)
        assert (await retained(hub)).keys() == chunk_topics(second) | {topics.model("own")}

    run_virtual(main())


def test_a_revocation_stays_and_its_chunks_go() -> None:
    async def main() -> None:
        hub = MemoryHub()
        made, session = publisher(hub)
        release = released(FILE)
        gone = KEY.sign(revocation(release.manifest, "it saw ghosts", NOON))
        async with running(session):
            await made.publish(release, FILE)
            await made.publish(gone, b"")
        assert await retained(hub) == {topics.model("own"): gone.envelope}

    run_virtual(main())


def test_the_last_sequence_is_that_of_the_newest_release_with_a_trusted_signature() -> None:
    async def main() -> None:
        hub = MemoryHub()
        release, forged = released(FILE), released(FILE, "9", minutes=99, key=SigningKey.new())
        made, session = publisher(hub)
        async with running(session):
            assert await made.last_sequence("own") == 0
            await made.publish(release, FILE)
            await session.publish(Outgoing(topics.model("own"), forged.envelope))
            await asyncio.sleep(0.01)
            assert await made.last_sequence("own") == release.manifest.sequence
        another, session = publisher(hub)
        async with running(session):
            assert await another.last_sequence("own") == release.manifest.sequence

    run_virtual(main())


def test_a_broker_that_has_forgotten_everything_is_told_again() -> None:
    async def main() -> None:
        hub = MemoryHub()
        made, session = publisher(hub)
        watching = asyncio.create_task(made.run())
        async with running(session):
            await made.publish(released(FILE), FILE)
            hub.stop()
            hub.start()
            assert await retained(hub) == {}
            await asyncio.sleep(10)
            assert len(await retained(hub)) == 4
        watching.cancel()

    run_virtual(main())


def test_a_broker_that_is_away_is_waited_for_and_then_given_up_in_a_sentence() -> None:
    async def main() -> None:
        hub = MemoryHub()
        made, session = publisher(hub)
        async with running(session):
            await made.last_sequence("own")
            hub.stop()
            with pytest.raises(BrokerError, match=r"own@1 could not be released within 60 s: .*the broker went away"):
                await made.publish(released(FILE), FILE)

    run_virtual(main())


def test_a_broker_that_takes_no_such_message_is_named() -> None:
    async def main() -> None:
        made, session = publisher(MemoryHub(packet_bytes=1000))
        async with running(session):
            with pytest.raises(BrokerError, match="refuses 32768 bytes"):
                await made.publish(released(FILE), FILE)

    run_virtual(main())
