"""What nobody wants any more costs no run, and whoever asked the same gets its answer all the same."""

import asyncio

import pytest

from pipeline.timing import run_virtual
from pipeline.transport.base import Outgoing
from pipeline.wire import topics
from pipeline.wire.codec import encode_cancel
from pipeline.wire.messages import Cancel, Refusal
from tests.support.detectors import ScriptedDetector
from tests.support.workers import Requester, bench, make_request

RUN_S = 0.1


def one_by_one() -> ScriptedDetector:
    return ScriptedDetector(run_s=lambda _batch: RUN_S)


def test_a_cancelled_request_is_refused_at_once_and_never_run() -> None:
    async def scene() -> None:
        detector = one_by_one()
        async with bench([detector], batch="none") as made:
            sent = [await made.requester.send(make_request(i), grey=8 * i) for i in range(1, 4)]
            await asyncio.sleep(0.01)
            await made.requester.cancel(sent[1])
            await asyncio.sleep(0.01)
            assert made.requester.reply_to(sent[1]).refused is Refusal.CANCELLED
            await asyncio.sleep(1)
            assert detector.batches == [[8], [24]]
            assert [made.requester.reply_to(one).refused for one in sent] == [None, Refusal.CANCELLED, None]
            assert made.services[0].worker_state().refused == {"cancelled": 1}

    run_virtual(scene())


def test_what_is_in_the_model_is_answered_as_ever() -> None:
    async def scene() -> None:
        async with bench([one_by_one()]) as made:
            sent = await made.requester.send(make_request(1))
            await asyncio.sleep(RUN_S / 2)
            await made.requester.cancel(sent)
            await asyncio.sleep(1)
            assert made.requester.reply_to(sent).refused is None

    run_virtual(scene())


def test_a_cancellation_that_overtakes_its_request_is_not_lost() -> None:
    async def scene() -> None:
        detector = one_by_one()
        async with bench([detector]) as made:
            await made.requester.cancel(b"7")
            sent = await made.requester.send(make_request(7))
            await asyncio.sleep(1)
            assert made.requester.reply_to(sent).refused is Refusal.CANCELLED
            assert detector.batches == []

    run_virtual(scene())


def test_a_cancellation_reaches_whichever_worker_has_the_request() -> None:
    async def scene() -> None:
        detectors = [one_by_one(), one_by_one()]
        async with bench(detectors, batch="none") as made:
            sent = [await made.requester.send(make_request(i), grey=8 * i) for i in range(1, 7)]
            await asyncio.sleep(0.01)
            await made.requester.cancel(*sent[2:])
            await asyncio.sleep(1)
            assert sorted(batch for detector in detectors for batch in detector.batches) == [[8], [16]]
            assert [made.requester.reply_to(one).refused for one in sent[2:]] == [Refusal.CANCELLED] * 4

    run_virtual(scene())


def test_an_agent_cancels_nothing_of_another_one() -> None:
    async def scene() -> None:
        async with bench([one_by_one()], batch="none") as made:
            other = Requester(made.hub, "a2")
            running = asyncio.create_task(other.transport.run())
            await other.transport.wait_connected()
            sent = [await made.requester.send(make_request(i)) for i in range(2)]
            await other.cancel(*sent)
            await asyncio.sleep(1)
            assert [made.requester.reply_to(one).refused for one in sent] == [None, None]
            running.cancel()

    run_virtual(scene())


@pytest.mark.parametrize("cancelled", [0, 1, 2])
def test_whoever_asked_the_same_is_answered_although_one_of_them_cancels(cancelled: int) -> None:
    """Decision 022: leader and followers alike end for themselves alone."""

    async def scene() -> None:
        detector = one_by_one()
        async with bench([detector], batch="none", coalesce=True) as made:
            await made.requester.send(make_request(0), grey=8)
            sent = [await made.requester.send(make_request(i), grey=80) for i in range(1, 4)]
            await asyncio.sleep(0.01)
            await made.requester.cancel(sent[cancelled])
            await asyncio.sleep(1)
            refused = [made.requester.reply_to(one).refused for one in sent]
            assert refused == [Refusal.CANCELLED if i == cancelled else None for i in range(3)]
            assert detector.batches == [[8], [80]]

    run_virtual(scene())


@pytest.mark.parametrize(
    ("payload", "retain"),
    [(b"", False), (b"no cancellation", False), (encode_cancel(Cancel(correlations=[b"1"])), True)],
    ids=["empty", "unreadable", "retained"],
)
def test_what_is_no_cancellation_cancels_nothing_and_does_no_harm(payload: bytes, retain: bool) -> None:
    async def scene() -> None:
        async with bench([one_by_one()]) as made:
            if retain:  # a worker that connects later finds it there
                await made.requester.transport.publish(Outgoing(topics.cancel("cloud", "a1"), payload, retain=True))
                made.kill_first()
                made.add_worker(one_by_one())
                await made.connected()
            else:
                await made.requester.transport.publish(Outgoing(topics.cancel("cloud", "a1"), payload))
            sent = await made.requester.send(make_request(1))
            await asyncio.sleep(1)
            assert made.requester.reply_to(sent).refused is None

    run_virtual(scene())
