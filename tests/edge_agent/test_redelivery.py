"""Answers that come twice, late, out of order or never: one result per frame, whatever the way does."""

import asyncio
from collections import Counter

import pytest

from pipeline.results import Origin
from pipeline.timing import run_virtual
from pipeline.transport.base import Message, Outgoing
from pipeline.wire import topics
from pipeline.wire.codec import decode_reply
from pipeline.wire.messages import Reply
from tests.support.agents import Deed, Pictures, Stage, camera, stage

FRAMES = 40


async def to_the_end(made: Stage) -> None:
    await made.agent.run(1.0)
    await asyncio.sleep(0.5)  # for what comes after the last frame


def results_heard(made: Stage) -> Counter[tuple[str, int, int]]:
    """What a subscriber hears: how often each frame's result was published."""
    return Counter((result.camera, result.epoch, result.seq) for _, result in made.kept.results)


@pytest.mark.parametrize("reconnects", [False, True], ids=["at once", "once more after a reconnect"])
def test_an_answer_that_is_delivered_twice_makes_one_result_and_the_second_is_counted(*, reconnects: bool) -> None:
    """Case D06."""

    async def scene() -> None:
        async with stage([Pictures(FRAMES)], deeds=[Deed()], cameras=[camera()]) as made:
            copies: list[Message] = []

            async def again() -> None:
                """Deliver every answer once more; afterwards, where the connection is lost in between."""
                while True:
                    await asyncio.sleep(0.5)
                    new = [m for m in made.heard if m.topic == topics.reply("a1")][len(copies) :]
                    new = [m for m in new if m.correlation not in {copy.correlation for copy in copies}]
                    if new and reconnects:
                        made.control.abort()
                        await made.control.wait_connected()
                    for message in new:
                        copies.append(message)
                        sent = Outgoing(message.topic, message.payload, correlation=message.correlation)
                        await made.bulk.publish(sent)

            repeating = asyncio.create_task(again())
            await to_the_end(made)
            repeating.cancel()
            assert len(copies) >= FRAMES // 2
            assert set(results_heard(made).values()) == {1}
            assert made.counts().captured == FRAMES == len(made.kept.results)
            assert made.agent.uplink.counters["unexpected_reply"] >= FRAMES // 2

    run_virtual(scene())


def test_answers_are_taken_in_any_order_by_their_id() -> None:
    """Case D10: with several workers a later request may be answered first."""

    async def scene() -> None:
        deeds = [Deed(delay_s=0.14), Deed(delay_s=0.02)] * FRAMES
        async with stage([Pictures(FRAMES)], deeds=deeds, cameras=[camera(deadline_ms=500.0)]) as made:
            await to_the_end(made)
            heard = [decode_reply(m.payload) for m in made.heard if m.topic == topics.reply("a1")]
            order = [reply.seq for reply in heard if isinstance(reply, Reply) and reply.detections]
            assert order != sorted(order)
            assert set(results_heard(made).values()) == {1}
            by_seq = {result.seq: result.origin for _, result in made.kept.results}
            assert sum(origin == Origin.FUSED.value for origin in by_seq.values()) >= FRAMES - 4
            assert made.counts().captured == FRAMES == len(by_seq)

    run_virtual(scene())


def test_what_a_dead_worker_keeps_is_answered_by_the_edge_at_the_deadline_and_nothing_hangs() -> None:
    """Case D10: every other request goes to a worker that was killed and still has its share."""

    async def scene() -> None:
        deeds = [Deed(), Deed(delay_s=None)] * FRAMES
        async with stage([Pictures(FRAMES)], deeds=deeds, cameras=[camera()]) as made:
            await to_the_end(made)
            assert set(results_heard(made).values()) == {1}
            assert made.counts().captured == FRAMES == len(made.kept.results)
            assert made.counts().in_flight == 0
            assert max(made.lateness_s()) <= 0.0
            origins = Counter(result.origin for _, result in made.kept.results)
            assert origins[Origin.EDGE_TIMEOUT.value] > 0
            assert origins[Origin.FUSED.value] > 0

    run_virtual(scene())
