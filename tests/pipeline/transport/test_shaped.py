"""Sessions behind a modelled network, on virtual time."""

import asyncio
from collections.abc import Callable

import pytest

from pipeline.network.link import LinkSettings
from pipeline.network.profiles import Profile, profile
from pipeline.network.rate import constant, interrupted
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.memory import INBOX_MESSAGES, MemoryHub, MemoryTransport
from pipeline.transport.shaped import ACK_TIMEOUT_S, BACKLOG_BYTES, ShapedTransport, message_bytes
from tests.support.brokers import running


def steady(mbit_s: float = 8.0, one_way_s: float = 0.1, outages: tuple[tuple[float, float], ...] = ()) -> Profile:
    direction = LinkSettings(interrupted([(0.0, mbit_s * 125_000)], outages), one_way_s)
    return Profile("steady", 0, 2 * one_way_s, direction, direction, outages)


class Heard:
    """What a session received, and when."""

    def __init__(self) -> None:
        self.at: list[tuple[float, bytes]] = []

    def __call__(self, message: Message) -> None:
        self.at.append((asyncio.get_running_loop().time(), message.payload))

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload in self.at]


class Site:
    """Agent's sessions behind one network, a worker's without, on one hub."""

    def __init__(self, network: Profile) -> None:
        self.hub = MemoryHub()
        self.links = network.links(0.0)
        self.inner = [MemoryTransport(self.hub), MemoryTransport(self.hub)]
        self.agent, self.second = (ShapedTransport(inner, *self.links, LoopClock()) for inner in self.inner)
        self.worker = MemoryTransport(self.hub)
        self.at_agent, self.at_worker = Heard(), Heard()
        self.agent.subscribe("down/#", self.at_agent)
        self.worker.subscribe("up/#", self.at_worker)


def test_a_message_takes_its_bytes_and_the_way_up_and_none_is_waited_for() -> None:
    async def main() -> tuple[float, list[tuple[float, bytes]]]:
        site = Site(steady())
        async with running(site.agent, site.worker):
            assert await site.agent.publish(Outgoing("up/a", bytes(100_000))) is PublishStatus.SENT
            published_s = asyncio.get_running_loop().time()
            await asyncio.sleep(1)
        return published_s, site.at_worker.at

    published_s, [(at_s, _)] = run_virtual(main())
    assert published_s == 0.0
    assert at_s == pytest.approx(100_000 * (1500 / 1460) / 1e6 + 0.1, abs=0.004)


def test_a_reply_takes_the_way_down_and_messages_keep_their_order() -> None:
    async def main() -> Heard:
        site = Site(profile("lte", 3))
        tasks: set[asyncio.Task[PublishStatus]] = set()

        def answer(message: Message) -> None:
            tasks.add(asyncio.ensure_future(site.worker.publish(Outgoing("down/a", message.payload))))

        site.worker.subscribe("ask", answer)
        async with running(site.agent, site.worker):
            for number in range(200):
                await site.agent.publish(Outgoing("ask", b"%d" % number, qos=0))
                await asyncio.sleep(0.01)
            await asyncio.sleep(5)
        return site.at_agent

    heard = run_virtual(main())
    assert heard.payloads == [b"%d" % number for number in range(200)]
    assert min(at_s - 0.01 * number for number, (at_s, _) in enumerate(heard.at)) > 0.005


def test_two_sessions_share_the_link() -> None:
    async def main() -> list[tuple[float, bytes]]:
        site = Site(steady())
        async with running(site.agent, site.second, site.worker):
            await site.agent.publish(Outgoing("up/large", bytes(100_000)))
            await site.second.publish(Outgoing("up/small", b"s"))
            await asyncio.sleep(1)
        return site.at_worker.at

    assert [at_s for at_s, _ in run_virtual(main())] == pytest.approx([0.2, 0.2], abs=0.004)


def test_a_publish_that_wants_an_acknowledgement_has_it_after_a_round_trip() -> None:
    async def main() -> tuple[PublishStatus, float]:
        site = Site(steady())
        async with running(site.agent, site.worker):
            status = await site.agent.publish(Outgoing("up/a", b"x", qos=1))
            return status, asyncio.get_running_loop().time()

    status, at_s = run_virtual(main())
    assert status is PublishStatus.SENT
    assert at_s == pytest.approx(0.2, abs=0.001)


def test_more_than_the_backlog_is_refused_at_once_and_taken_again_when_it_has_passed() -> None:
    async def main() -> list[PublishStatus]:
        site = Site(steady(mbit_s=1.0))
        async with running(site.agent, site.worker):
            large = Outgoing("up/a", bytes(BACKLOG_BYTES // 2))
            told = [await site.agent.publish(large) for _ in range(3)]
            await asyncio.sleep(3)
            return [*told, await site.agent.publish(large)]

    sent, backlog = PublishStatus.SENT, PublishStatus.BACKLOG
    assert run_virtual(main()) == [sent, backlog, backlog, sent]


def test_in_an_outage_nothing_arrives_and_the_session_stays_and_what_waits_comes_after_it() -> None:
    async def main() -> tuple[list[tuple[float, bytes]], PublishStatus, float, bool]:
        site = Site(steady(outages=((1.0, 11.0),)))
        async with running(site.agent, site.worker):
            await asyncio.sleep(2)
            await site.agent.publish(Outgoing("up/a", b"waits"))
            began_s = asyncio.get_running_loop().time()
            status = await site.agent.publish(Outgoing("up/b", b"q", qos=1))
            waited_s = asyncio.get_running_loop().time() - began_s
            connected = site.agent.state.connected
            await asyncio.sleep(10)
        return site.at_worker.at, status, waited_s, connected

    heard, status, waited_s, connected = run_virtual(main())
    assert [payload for _, payload in heard] == [b"waits", b"q"]
    assert [at_s for at_s, _ in heard] == pytest.approx([11.1, 11.1], abs=0.001)
    assert status is PublishStatus.NOT_CONNECTED
    assert waited_s == pytest.approx(ACK_TIMEOUT_S)
    assert connected


def lost_with(end: Callable[[Site], None]) -> tuple[list[bytes], list[bytes], PublishStatus]:
    """What arrives of messages under way both ways when something ends the agent's connection for a moment."""

    async def main() -> tuple[list[bytes], list[bytes], PublishStatus]:
        site = Site(steady(one_way_s=1.0))
        async with running(site.agent, site.worker):
            await site.agent.publish(Outgoing("up/a", b"lost"))
            waiting = asyncio.ensure_future(site.agent.publish(Outgoing("up/b", b"lost", qos=1)))
            await site.worker.publish(Outgoing("down/a", b"lost"))
            await asyncio.sleep(0.5)
            end(site)
            await asyncio.sleep(0.1)
            assert site.agent.state.connects == 2
            await site.agent.publish(Outgoing("up/a", b"new"))
            await site.worker.publish(Outgoing("down/a", b"new"))
            await asyncio.sleep(3)
            return site.at_worker.payloads, site.at_agent.payloads, await waiting

    return run_virtual(main())


def test_what_is_under_way_is_lost_with_its_connection() -> None:
    assert lost_with(lambda site: site.inner[0].abort()) == ([b"new"], [b"new"], PublishStatus.NOT_CONNECTED)


def test_who_waits_for_an_acknowledgement_is_told_when_the_session_stops() -> None:
    async def main() -> tuple[PublishStatus, float]:
        site = Site(steady(one_way_s=2.0))
        async with running(site.agent):
            waiting = asyncio.ensure_future(site.agent.publish(Outgoing("up/a", b"x", qos=1)))
            await asyncio.sleep(1)
        return await waiting, asyncio.get_running_loop().time()

    status, at_s = run_virtual(main())
    assert status is PublishStatus.NOT_CONNECTED
    assert at_s == pytest.approx(1.0)


def test_a_fault_on_the_way_ends_the_session_and_is_not_swallowed() -> None:
    class Broken(MemoryTransport):
        async def publish(self, outgoing: Outgoing) -> PublishStatus:
            raise RuntimeError("the way is broken")

    async def main() -> None:
        session = ShapedTransport(Broken(MemoryHub()), *steady().links(0.0), LoopClock())
        task = asyncio.ensure_future(session.run())
        await session.wait_connected()
        await session.publish(Outgoing("up/a", b""))
        await task

    with pytest.raises(RuntimeError, match="the way is broken"):
        run_virtual(main())


def test_what_comes_down_faster_than_the_link_is_ignored_and_counted_beyond_a_bound() -> None:
    async def main() -> tuple[int, int, int]:
        site = Site(steady(mbit_s=0.1))
        async with running(site.agent, site.worker):
            for _ in range(INBOX_MESSAGES + 50):
                await site.worker.publish(Outgoing("down/a", b"x"))
                await asyncio.sleep(0)
            await asyncio.sleep(200)
            state = site.agent.state
            return len(site.at_agent.at), state.received, state.ignored

    heard, received, ignored = run_virtual(main())
    assert received == INBOX_MESSAGES + 50
    assert heard + ignored == received
    assert 0 < ignored <= 50


def test_the_same_seed_gives_the_same_run() -> None:
    def once(seed: int) -> list[tuple[float, bytes]]:
        async def main() -> list[tuple[float, bytes]]:
            site = Site(profile("3g", seed))
            async with running(site.agent, site.worker):
                for number in range(50):
                    await site.agent.publish(Outgoing("up/a", bytes(2000 * (number % 5))))
                    await asyncio.sleep(0.05)
                await asyncio.sleep(5)
            return site.at_worker.at

        return run_virtual(main())

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_the_size_of_a_message_counts_what_travels_with_it() -> None:
    bare = message_bytes(Outgoing("a", bytes(100)))
    full = Outgoing("a", bytes(100), response_topic="b" * 10, correlation=b"1234", properties={"traceparent": "0" * 55})
    whole = message_bytes(full)
    assert bare is not None
    assert whole is not None
    assert 101 < bare < 140
    assert whole - bare == pytest.approx(10 + 4 + 11 + 55, abs=10)
    assert message_bytes(Outgoing("\ud800", b"")) is None


def test_a_fast_link_hardly_delays() -> None:
    async def main() -> float:
        direction = LinkSettings(constant(1e9), 0.0)
        site = Site(Profile("none", 0, 0.0, direction, direction))
        async with running(site.agent, site.worker):
            await site.agent.publish(Outgoing("up/a", bytes(100_000)))
            await asyncio.sleep(1)
        return site.at_worker.at[0][0]

    assert run_virtual(main()) < 0.001
