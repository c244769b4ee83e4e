"""What every transport does: in process, there behind a modelled network, over the embedded broker, over mosquitto."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from pipeline.network.link import LinkSettings
from pipeline.network.profiles import Profile
from pipeline.network.rate import constant
from pipeline.transport.backoff import Backoff
from pipeline.transport.base import Message, Outgoing, PublishStatus, Transport
from pipeline.transport.memory import MemoryHub
from pipeline.wire import topics
from tests.support.brokers import Bench, Embedded, Mosquitto, cut, running, until

KINDS = ["memory", "shaped", "embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)]
_DIRECTION = LinkSettings(constant(1e8), 0.002, 0.001, 0.001, 0.004)
NETWORK = Profile("fast", 7, 0.004, _DIRECTION, _DIRECTION)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    broker = Embedded()
    with broker:
        yield broker


@pytest.fixture(params=KINDS)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    if request.param == "memory":
        yield Bench(MemoryHub())
    elif request.param == "shaped":
        yield Bench(MemoryHub(), NETWORK)
    elif request.param == "embedded":
        yield Bench(request.getfixturevalue("embedded"))
    else:
        broker = Mosquitto(request.getfixturevalue("mosquitto"))
        broker.start()
        yield Bench(broker)
        broker.stop()


@pytest.fixture(params=KINDS)
async def own_bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A broker for one test alone, which may stop it."""
    broker: MemoryHub | Embedded | Mosquitto
    if request.param in {"memory", "shaped"}:
        broker = MemoryHub()
    elif request.param == "embedded":
        broker = Embedded()
    else:
        broker = Mosquitto(request.getfixturevalue("mosquitto"))
    broker.start()
    yield Bench(broker, NETWORK if request.param == "shaped" else None)
    broker.stop()


@pytest.fixture
def root() -> str:
    """A topic that no other test uses."""
    return f"test-{uuid.uuid4().hex[:8]}"


class Inbox:
    """Collects messages."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._changed = asyncio.Event()

    def __call__(self, message: Message) -> None:
        self.messages.append(message)
        self._changed.set()

    async def wait(self, count: int, within_s: float = 15.0) -> list[Message]:
        async with asyncio.timeout(within_s):
            while len(self.messages) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.messages

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


def listening(bench: Bench, *filters: str) -> tuple[Transport, Inbox]:
    session, inbox = bench.session(), Inbox()
    for topic_filter in filters:
        session.subscribe(topic_filter, inbox)
    return session, inbox


async def test_messages_arrive_in_order(bench: Bench, root: str) -> None:
    receiver, inbox = listening(bench, f"{root}/a")
    sender = bench.session()
    async with running(receiver, sender):
        for number in range(50):
            assert await sender.publish(Outgoing(f"{root}/a", b"%d" % number)) is PublishStatus.SENT
        await inbox.wait(50)
    assert inbox.payloads == [b"%d" % number for number in range(50)]
    assert receiver.state.received == 50


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_message_keeps_its_topic_and_is_not_marked_retained(bench: Bench, root: str, qos: int) -> None:
    receiver, inbox = listening(bench, f"{root}/#")
    async with running(receiver):
        assert await receiver.publish(Outgoing(f"{root}/a b/ü", b"x", qos=qos)) is PublishStatus.SENT
        (message,) = await inbox.wait(1)
    assert (message.topic, message.payload, message.retain) == (f"{root}/a b/ü", b"x", False)


async def test_wildcards_match_levels_and_each_filter_has_its_handler(bench: Bench, root: str) -> None:
    session, one, rest, end = bench.session(), Inbox(), Inbox(), Inbox()
    session.subscribe(f"{root}/+/x", one)
    session.subscribe(f"{root}/deep/#", rest)
    session.subscribe(f"{root}/end", end)
    async with running(session):
        for name in ("a/x", "b/x", "a/y", "a/b/x", "deep", "deep/b/c", "end"):
            await session.publish(Outgoing(f"{root}/{name}", name.encode()))
        await end.wait(1)
    assert one.payloads == [b"a/x", b"b/x"]
    assert rest.payloads == [b"deep", b"deep/b/c"]


async def test_a_request_is_answered_with_its_correlation_and_user_properties(bench: Bench, root: str) -> None:
    client, answers = listening(bench, f"{root}/rep/me")
    server = bench.session()
    replies: list[asyncio.Task[PublishStatus]] = []
    seen = Inbox()

    def serve(message: Message) -> None:
        seen(message)
        assert message.response_topic is not None
        answer = Outgoing(message.response_topic, message.payload.upper(), correlation=message.correlation)
        replies.append(asyncio.ensure_future(server.publish(answer)))

    server.subscribe(f"{root}/req", serve)
    async with running(client, server):
        request = Outgoing(
            f"{root}/req",
            b"question",
            response_topic=f"{root}/rep/me",
            correlation=b"\x00\xff7",
            expiry_s=3,
            properties={"traceparent": "00-ab-cd-01"},
        )
        assert await client.publish(request) is PublishStatus.SENT
        (answer,) = await answers.wait(1)
        await asyncio.gather(*replies)
    assert (answer.payload, answer.correlation) == (b"QUESTION", b"\x00\xff7")
    assert seen.messages[0].properties == {"traceparent": "00-ab-cd-01"}


async def test_a_shared_subscription_gives_each_message_to_one_of_its_members(bench: Bench, root: str) -> None:
    shared = f"$share/workers/{root}/req/+"
    (a, inbox_a), (b, inbox_b) = listening(bench, shared), listening(bench, shared)
    watcher, everything = listening(bench, f"{root}/req/#")
    async with running(a, b, watcher):
        for number in range(20):
            await watcher.publish(Outgoing(f"{root}/req/m", b"%d" % number))
        await everything.wait(20)
        await until(lambda: len(inbox_a.messages) + len(inbox_b.messages) >= 20)
    assert sorted(inbox_a.payloads + inbox_b.payloads) == sorted(b"%d" % number for number in range(20))
    assert inbox_a.messages
    assert inbox_b.messages


async def test_the_workers_of_one_group_share_what_is_for_each_target_and_model_by_itself(bench: Bench) -> None:
    group = uuid.uuid4().hex
    near = [topics.request_share(group, target, "m") for target in topics.targets("edge", "hall")]
    (a, inbox_a), (b, inbox_b) = listening(bench, *near), listening(bench, topics.request_share(group, "cloud", "m"))
    c, inbox_c = listening(bench, topics.request_share(group, "cloud", "n"))
    async with running(a, b, c):
        for number in range(10):
            for target, model in (("edge@hall", "m"), ("edge", "m"), ("cloud", "m"), ("cloud", "n")):
                await c.publish(Outgoing(topics.request(target, model), f"{target} {model} {number}".encode()))
        await asyncio.gather(inbox_a.wait(20), inbox_b.wait(10), inbox_c.wait(10))
    assert {payload.split()[0] for payload in inbox_a.payloads} == {b"edge@hall", b"edge"}
    assert {payload.rsplit(b" ", 1)[0] for payload in inbox_b.payloads} == {b"cloud m"}
    assert {payload.rsplit(b" ", 1)[0] for payload in inbox_c.payloads} == {b"cloud n"}


async def test_a_member_that_leaves_keeps_no_share(bench: Bench, root: str) -> None:
    shared = f"$share/workers/{root}/req"
    (staying, inbox), (leaving, _) = listening(bench, shared), listening(bench, shared)
    async with running(staying):
        async with running(leaving):
            pass
        for number in range(10):
            await staying.publish(Outgoing(f"{root}/req", b"%d" % number))
        await inbox.wait(10)


async def test_a_member_that_unsubscribes_has_had_all_that_was_sent_to_it_and_the_others_have_the_rest(
    bench: Bench, root: str
) -> None:
    shared, count = f"$share/workers/{root}/req", 300
    (staying, stays), (leaving, left) = listening(bench, shared), listening(bench, shared)
    sender = bench.session()
    async with running(staying, leaving, sender):

        async def send() -> None:
            for number in range(count):
                await sender.publish(Outgoing(f"{root}/req", b"%d" % number))
                await asyncio.sleep(0.001)

        sending = asyncio.create_task(send())
        await left.wait(20)
        await leaving.unsubscribe(shared)
        had = len(left.messages)
        await sending
        await until(lambda: len(stays.messages) + had >= count)
        assert had < count / 2 + 10
        assert sorted(stays.payloads + left.payloads) == sorted(b"%d" % number for number in range(count))
        assert len(left.messages) == had
        assert leaving.state.connected


async def test_a_reconnect_does_not_bring_back_what_was_unsubscribed(bench: Bench, root: str) -> None:
    session, inbox = listening(bench, f"{root}/a", f"{root}/b")
    async with running(session):
        await session.unsubscribe(f"{root}/a")
        cut(session)
        await until(lambda: session.state.connects == 2 and session.state.connected)
        for name in "ab":
            await session.publish(Outgoing(f"{root}/{name}", name.encode()))
        await inbox.wait(1)
    assert inbox.payloads == [b"b"]


async def test_what_was_not_subscribed_to_cannot_be_unsubscribed(bench: Bench, root: str) -> None:
    with pytest.raises(ValueError, match="is not subscribed to"):
        await bench.session().unsubscribe(f"{root}/a")


async def test_a_late_subscriber_reads_the_retained_state_and_knows_that_it_is_old(bench: Bench, root: str) -> None:
    sender = bench.session()
    async with running(sender):
        for state in (b"old", b"new"):
            assert await sender.publish(Outgoing(f"{root}/state", state, 1, retain=True)) is PublishStatus.SENT
        late, inbox = listening(bench, f"{root}/+")
        async with running(late):
            (message,) = await inbox.wait(1)
            assert (message.payload, message.retain) == (b"new", True)


async def test_an_empty_retained_message_clears_the_state(bench: Bench, root: str) -> None:
    sender = bench.session()
    async with running(sender):
        await sender.publish(Outgoing(f"{root}/state", b"x", 1, retain=True))
        await sender.publish(Outgoing(f"{root}/state", b"", 1, retain=True))
        late, inbox = listening(bench, f"{root}/+")
        async with running(late):
            await sender.publish(Outgoing(f"{root}/marker", b"m", 1))
            assert [message.payload for message in await inbox.wait(1)] == [b"m"]


async def test_a_retained_message_or_will_past_its_expiry_is_not_delivered(bench: Bench, root: str) -> None:
    sender, (watcher, told) = bench.session(), listening(bench, f"{root}/+/will")
    kept_s = {"short": 1, "long": 100}
    wills = [
        Outgoing(f"{root}/{name}/will", name.encode(), 1, retain=True, expiry_s=expiry_s)
        for name, expiry_s in kept_s.items()
    ]
    mortals = [bench.session(will, Backoff(first_s=20, most_s=20)) for will in wills]
    async with running(sender, watcher, *mortals):
        for name, expiry_s in kept_s.items():
            await sender.publish(Outgoing(f"{root}/{name}", name.encode(), 1, retain=True, expiry_s=expiry_s))
        for mortal in mortals:
            cut(mortal)
        await told.wait(2)
        await asyncio.sleep(2.1)  # brokers count whole seconds of real time
        late, inbox = listening(bench, f"{root}/#")
        async with running(late):
            await sender.publish(Outgoing(f"{root}/marker", b"m", 1))
            messages = await inbox.wait(3)
    assert sorted(message.payload for message in messages) == [b"long", b"long", b"m"]


async def test_the_will_is_sent_after_an_abrupt_end_and_kept(bench: Bench, root: str) -> None:
    watcher, inbox = listening(bench, f"{root}/available")
    will = Outgoing(f"{root}/available", b"offline", 1, retain=True)
    mortal = bench.session(will, Backoff(first_s=20, most_s=20))
    async with running(watcher, mortal):
        cut(mortal)
        (message,) = await inbox.wait(1)
        assert message.payload == b"offline"
        late, kept = listening(bench, f"{root}/+")
        async with running(late):
            assert (await kept.wait(1))[0].retain


async def test_no_will_is_sent_after_a_goodbye(bench: Bench, root: str) -> None:
    watcher, inbox = listening(bench, f"{root}/#")
    async with running(watcher):
        async with running(bench.session(Outgoing(f"{root}/available", b"offline", 1))):
            pass
        await watcher.publish(Outgoing(f"{root}/marker", b"m", 1))
        await inbox.wait(1)
    assert inbox.payloads == [b"m"]
    assert watcher.state.connected is False


async def test_a_session_comes_back_after_a_broker_restart_with_subscriptions_and_births(own_bench: Bench) -> None:
    receiver, inbox = listening(own_bench, "state/#")

    async def birth() -> None:
        assert await receiver.publish(Outgoing("state/available", b"online", 1)) is PublishStatus.SENT

    receiver.on_connect(birth)
    async with running(receiver):
        await inbox.wait(1)
        for round_ in (2, 3):
            await own_bench.stop()
            await until(lambda: not receiver.state.connected)
            assert receiver.state.reason
            assert await receiver.publish(Outgoing("state/lost", b"x")) is PublishStatus.NOT_CONNECTED
            assert await receiver.publish(Outgoing("state/lost", b"x", 1)) is PublishStatus.NOT_CONNECTED
            await own_bench.start()
            await inbox.wait(round_)
            assert receiver.state.connects == round_
            assert receiver.state.reason == ""
    assert inbox.payloads == [b"online"] * 3


async def test_a_session_that_lost_its_connection_comes_back(bench: Bench, root: str) -> None:
    session, inbox = listening(bench, f"{root}/a")
    async with running(session):
        cut(session)
        await until(lambda: session.state.connects == 2)
        await session.wait_connected()
        await session.publish(Outgoing(f"{root}/a", b"again"))
        assert [message.payload for message in await inbox.wait(1)] == [b"again"]


async def test_publishing_before_and_after_the_run_is_not_connected(bench: Bench, root: str) -> None:
    session = bench.session()
    assert session.state.reason == "not started"
    assert await session.publish(Outgoing(f"{root}/a", b"x")) is PublishStatus.NOT_CONNECTED
    async with running(session):
        assert session.state.connected
    assert session.state.reason == "stopped"
    assert await session.publish(Outgoing(f"{root}/a", b"x", 1)) is PublishStatus.NOT_CONNECTED


async def test_five_mebibytes_pass_unharmed(bench: Bench, root: str) -> None:
    receiver, inbox = listening(bench, f"{root}/big")
    payload = bytes(range(256)) * (5 * 4096)
    async with running(receiver):
        assert await receiver.publish(Outgoing(f"{root}/big", payload)) is PublishStatus.SENT
        (message,) = await inbox.wait(1)
    assert message.payload == payload


@pytest.mark.parametrize("topic", ["", "a/+/b", "a/#", "a\0b", "x" * 65_536, "\ud800"])
async def test_a_bad_topic_is_refused_and_harms_nothing(bench: Bench, root: str, topic: str) -> None:
    receiver, inbox = listening(bench, f"{root}/a")
    async with running(receiver):
        assert await receiver.publish(Outgoing(topic, b"x")) is PublishStatus.REFUSED
        assert await receiver.publish(Outgoing(f"{root}/a", b"good")) is PublishStatus.SENT
        await inbox.wait(1)
    assert receiver.state.connects == 1


async def test_a_message_over_the_limit_is_refused_and_harms_nothing(bench: Bench, root: str) -> None:
    session = bench.session()
    async with running(session):
        assert await session.publish(Outgoing(f"{root}/a", bytes(9 * 1024 * 1024))) is PublishStatus.REFUSED
        assert await session.publish(Outgoing(f"{root}/a", b"good", 1)) is PublishStatus.SENT
    assert session.state.connects == 1


async def test_a_handler_that_raises_is_counted_and_the_next_message_arrives(bench: Bench, root: str) -> None:
    session, inbox = bench.session(), Inbox()

    def fragile(message: Message) -> None:
        if message.payload == b"bad":
            raise ValueError("a handler that is wrong")
        inbox(message)

    session.subscribe(f"{root}/a", fragile)
    async with running(session):
        for payload in (b"bad", b"bad", b"good"):
            await session.publish(Outgoing(f"{root}/a", payload))
        await inbox.wait(1)
    assert session.state.received == 3
    assert session.state.ignored == 2
    assert session.state.connects == 1


async def test_a_birth_that_raises_does_not_end_the_session(bench: Bench, root: str) -> None:
    session, inbox = listening(bench, f"{root}/a")

    async def wrong() -> None:
        raise ValueError("a birth that is wrong")

    session.on_connect(wrong)
    async with running(session):
        await session.publish(Outgoing(f"{root}/a", b"x"))
        await inbox.wait(1)


@pytest.mark.parametrize("topic_filter", ["", "a/#/b", "a+/b", "$share/g", "$share//a", "$share/+/a"])
async def test_an_invalid_filter_is_refused_at_once(bench: Bench, topic_filter: str) -> None:
    with pytest.raises(ValueError, match="cannot subscribe"):
        bench.session().subscribe(topic_filter, lambda _: None)
