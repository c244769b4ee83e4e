"""What only the in-process transport does: virtual time, one copy per session, a bounded inbox."""

import asyncio

from pipeline.timing import run_virtual
from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.memory import INBOX_BYTES, INBOX_MESSAGES, MemoryHub, MemoryTransport
from tests.support.brokers import running


def test_it_works_on_virtual_time_and_retained_messages_expire_by_it() -> None:
    async def main() -> list[bytes]:
        hub, got = MemoryHub(), list[bytes]()
        sender, late = MemoryTransport(hub), MemoryTransport(hub)
        late.subscribe("#", lambda message: got.append(message.payload))
        async with running(sender):
            await sender.publish(Outgoing("a", b"short", retain=True, expiry_s=10))
            await sender.publish(Outgoing("b", b"long", retain=True, expiry_s=1000))
            await asyncio.sleep(10)
            async with running(late):
                await asyncio.sleep(1)
        return got

    assert run_virtual(main()) == [b"long"]


def test_the_same_run_gives_the_same_split_of_a_shared_subscription() -> None:
    async def main() -> list[list[int]]:
        hub, got = MemoryHub(), [list[int](), list[int](), list[int]()]
        sender, members = MemoryTransport(hub), [MemoryTransport(hub) for _ in got]
        for member, numbers in zip(members, got, strict=True):
            member.subscribe("$share/g/a", lambda message, into=numbers: into.append(int(message.payload)))  # type: ignore[misc] # bound early
        async with running(sender, *members):
            for number in range(6):
                await sender.publish(Outgoing("a", b"%d" % number))
            await asyncio.sleep(1)
        return got

    assert run_virtual(main()) == [[0, 3], [1, 4], [2, 5]]


def test_overlapping_filters_bring_one_copy() -> None:
    async def main() -> list[str]:
        session, got = MemoryTransport(MemoryHub()), list[str]()
        session.subscribe("a/+", lambda _: got.append("plus"))
        session.subscribe("a/#", lambda _: got.append("hash"))
        async with running(session):
            await session.publish(Outgoing("a/b", b""))
            await asyncio.sleep(1)
        return got

    assert run_virtual(main()) == ["plus"]


def test_an_inbox_that_is_full_ignores_and_counts() -> None:
    async def main(payload: bytes, count: int) -> tuple[int, int, int]:
        hub, got = MemoryHub(), list[Message]()
        receiver, sender = MemoryTransport(hub), MemoryTransport(hub)
        receiver.subscribe("a", got.append)
        async with running(receiver, sender):
            for _ in range(count):  # without a pause in which the receiver could read
                assert await sender.publish(Outgoing("a", payload)) is PublishStatus.SENT
            await asyncio.sleep(1)
            await sender.publish(Outgoing("a", b"after"))
            await asyncio.sleep(1)
        assert got[-1].payload == b"after"
        return len(got), receiver.state.received, receiver.state.ignored

    assert run_virtual(main(b"", INBOX_MESSAGES + 5)) == (INBOX_MESSAGES + 1, INBOX_MESSAGES + 6, 5)
    size = 8 * 1024 * 1024
    fit = INBOX_BYTES // size
    assert run_virtual(main(bytes(size), fit + 2)) == (fit + 1, fit + 3, 2)
