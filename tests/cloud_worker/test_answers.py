"""Identical requests are run once, and each of those who sent one has its own reply, by its own deadline."""

import asyncio
from random import Random
from statistics import fmean

import pytest

from pipeline.timing import run_virtual
from pipeline.wire.codec import encode_request
from pipeline.wire.messages import Refusal, WireCrop
from tests.support.detectors import POISON_GREY, ScriptedDetector, grey_picture, jpeg_of
from tests.support.workers import Requester, bench, make_request

GREY = 80


def slow() -> ScriptedDetector:
    return ScriptedDetector(run_s=lambda _batch: 0.1)


def test_four_agents_on_one_source_cost_one_run_per_picture() -> None:
    async def scene() -> None:
        detector = ScriptedDetector()
        async with bench([detector], coalesce=True) as made:
            sent = []
            for frame in range(20):
                for agent in range(4):
                    request = make_request(10 * frame + agent, agent=f"a{agent}")
                    sent.append(await made.requester.send(request, grey=8 * frame))
                    await asyncio.sleep(0.002)
                await asyncio.sleep(0.1)
            replies = [made.requester.reply_to(one) for one in sent]
            assert [reply.key[0] for reply in replies] == [f"a{agent}" for agent in range(4)] * 20
            assert [reply.detections[0][0].label for reply in replies[::4]] == [f"grey{8 * i}" for i in range(20)]
            assert len(detector.batches) == 20
            assert made.services[0].statistics().joined == 60
            for reply in replies:
                assert reply.total_ms == pytest.approx(reply.queue_ms + reply.infer_ms)
                assert reply.total_ms < 21

    run_virtual(scene())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_hit_ratio_and_the_mean_latency_told_are_those_of_the_replies(seed: int) -> None:
    """Counted a second time by whoever asks: some answers are kept ones, some joined a run, some are refused."""
    chance = Random(seed)

    async def scene() -> None:
        async with bench([slow()], cache_ttl_s=1.0, coalesce=True, batch="none") as made:
            sent = []
            for number in range(120):
                request = make_request(number, budget_ms=chance.choice([150.0, 900.0]))
                sent.append(await made.requester.send(request, grey=8 * chance.randrange(1, 12)))
                await asyncio.sleep(chance.expovariate(20))
            await asyncio.sleep(2)
            replies = [made.requester.reply_to(one) for one in sent]
            answered = [reply for reply in replies if reply.refused is None]
            kept = [reply.total_ms for reply in answered if reply.source == "cache"]
            others = [reply.total_ms for reply in answered if reply.source != "cache"]
            assert {reply.source for reply in answered} == {"run", "joined", "cache"}
            assert len(answered) < len(replies)
            told = made.services[0].worker_state().reuse
            assert told is not None
            assert (told.hits, told.misses) == (len(kept), len(others))
            assert told.hit_ratio == pytest.approx(len(kept) / len(answered))
            assert told.hit_ms == pytest.approx(fmean(kept))
            assert told.miss_ms == pytest.approx(fmean(others))
            assert told.mean_ms == pytest.approx(fmean(reply.total_ms for reply in answered))

    run_virtual(scene())


@pytest.mark.parametrize(
    ("changes", "grey"), [({"min_score": 0.4}, GREY), ({}, GREY + 16)], ids=["another threshold", "another picture"]
)
def test_another_question_is_run_by_itself(changes: dict[str, object], grey: int) -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], coalesce=True, batch="none") as made:
            await made.requester.send(make_request(1, budget_ms=900.0), grey=GREY)
            await made.requester.send(make_request(2, budget_ms=900.0, **changes), grey=grey)
            await asyncio.sleep(1)
            assert len(detector.batches) == 2

    run_virtual(scene())


def test_each_gets_the_detections_of_its_own_crops() -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], coalesce=True) as made:
            one = await made.requester.send(make_request(1))
            two = await made.requester.send(
                make_request(2, crops=[WireCrop((0, 0, 4, 4), (0, 0, 4, 4)), WireCrop((4, 4, 60, 60), (9, 9, 60, 60))])
            )
            await asyncio.sleep(1)
            assert len(detector.batches) == 1
            assert [found.box for [found] in made.requester.reply_to(one).detections] == [(8, 8, 24, 24)]
            first, second = made.requester.reply_to(two).detections
            assert (first, [found.box for found in second]) == ([], [(4, 4, 20, 20)])

    run_virtual(scene())


def test_the_more_urgent_takes_the_place_of_the_one_it_joins() -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], coalesce=True, batch="none") as made:
            await made.requester.send(make_request(0, budget_ms=9000.0), grey=8)
            await asyncio.sleep(0.05)
            other = await made.requester.send(make_request(1, budget_ms=600.0), grey=16)
            lax = await made.requester.send(make_request(2, budget_ms=900.0), grey=24)
            await asyncio.sleep(0.01)
            urgent = await made.requester.send(make_request(3, budget_ms=300.0), grey=24)
            await asyncio.sleep(1)
            assert detector.batches == [[8], [24], [16]]
            assert [made.requester.reply_to(each).refused for each in (other, lax, urgent)] == [None] * 3
            assert made.requester.reply_to(lax).total_ms == pytest.approx(150, abs=1)

    run_virtual(scene())


def test_whoever_cannot_be_in_time_is_refused_and_those_it_would_have_led_are_not() -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], coalesce=True, batch="none") as made:
            await made.requester.send(make_request(0, budget_ms=9000.0), grey=8)
            await asyncio.sleep(0.2)
            await made.requester.send(make_request(1, budget_ms=9000.0), grey=16)
            await asyncio.sleep(0.01)
            lax = await made.requester.send(make_request(2, budget_ms=900.0), grey=24)
            hopeless = await made.requester.send(make_request(3, budget_ms=120.0), grey=24)
            await asyncio.sleep(0.001)
            assert made.requester.reply_to(hopeless).refused is Refusal.INFEASIBLE
            await asyncio.sleep(1)
            assert made.requester.reply_to(lax).refused is None
            assert detector.batches == [[8], [16], [24]]

    run_virtual(scene())


def test_a_leader_whose_time_is_up_leaves_the_question_to_those_who_still_have_time() -> None:
    async def scene() -> None:
        detector = ScriptedDetector(run_s=lambda _batch: 0.3)
        async with bench([detector], coalesce=True, batch="none") as made:
            await made.requester.send(make_request(0, budget_ms=9000.0), grey=8)
            await asyncio.sleep(0.01)
            leader = await made.requester.send(make_request(1, budget_ms=200.0))
            follower = await made.requester.send(make_request(2, budget_ms=900.0, agent="a2"))
            await asyncio.sleep(1)
            assert made.requester.reply_to(leader).refused is Refusal.EXPIRED
            assert made.requester.reply_to(follower).refused is None
            assert detector.batches == [[8], [GREY]]

    run_virtual(scene())


def test_a_picture_that_fails_is_tried_for_one_other_and_then_told_to_all() -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], coalesce=True, batch="none") as made:
            sent = [await made.requester.send(make_request(i, budget_ms=9000.0), grey=POISON_GREY) for i in range(5)]
            await asyncio.sleep(2)
            assert [made.requester.reply_to(one).refused for one in sent] == [Refusal.FAILED] * 5
            assert len(detector.batches) == 2

    run_virtual(scene())


def test_a_run_that_fails_once_costs_only_its_leader() -> None:
    async def scene() -> None:
        runs: list[int] = []
        detector = ScriptedDetector(run_s=lambda _batch: 0.1, fails=lambda greys: runs.append(1) or len(runs) == 1)  # type: ignore[func-returns-value]  # counted
        async with bench([detector], coalesce=True, batch="none") as made:
            sent = [await made.requester.send(make_request(i, budget_ms=900.0 + i)) for i in range(3)]
            await asyncio.sleep(1)
            refusals = [made.requester.reply_to(one).refused for one in sent]
            assert refusals == [Refusal.FAILED, None, None]

    run_virtual(scene())


def test_a_damaged_picture_is_told_to_all_who_sent_it() -> None:
    async def scene() -> None:
        jpeg = jpeg_of(grey_picture(GREY))
        async with bench([slow()], coalesce=True, decode_s=0.01) as made:
            cut = [encode_request(make_request(i), jpeg)[:-20] for i in range(3)]
            sent = [await made.requester.send_bytes(payload, str(i)) for i, payload in enumerate(cut)]
            await asyncio.sleep(1)
            assert [made.requester.reply_to(one).refused for one in sent] == [Refusal.BAD_PAYLOAD] * 3

    run_virtual(scene())


@pytest.mark.parametrize("leads", [True, False], ids=["who leads", "who follows"])
def test_an_agent_that_gives_up_takes_nobody_with_it(leads: bool) -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], coalesce=True, batch="none") as made:
            other = Requester(made.hub, "a2")
            running = asyncio.create_task(other.transport.run())
            await other.transport.wait_connected()
            await made.requester.send(make_request(0, budget_ms=9000.0), grey=8)
            await asyncio.sleep(0.01)
            asking = [made.requester, other] if leads else [other, made.requester]
            sent = {each: await each.send(make_request(1, agent=each.agent, budget_ms=900.0)) for each in asking}
            await made.requester.probe(7, give_up=True)
            await asyncio.sleep(0.001)
            assert made.requester.reply_to(sent[made.requester]).refused is Refusal.EXPIRED
            await asyncio.sleep(1)
            assert other.reply_to(sent[other]).refused is None
            assert detector.batches == [[8], [GREY]]
            running.cancel()

    run_virtual(scene())


def test_no_more_follow_than_may() -> None:
    async def scene() -> None:
        async with bench([slow()], coalesce=True, queue_capacity=3) as made:
            sent = [await made.requester.send(make_request(i, budget_ms=900.0)) for i in range(6)]
            await asyncio.sleep(1)
            refusals = [made.requester.reply_to(one).refused for one in sent]
            assert refusals == [None] * 4 + [Refusal.QUEUE_FULL] * 2

    run_virtual(scene())


def test_an_agent_that_follows_often_makes_room_for_one_that_does_not() -> None:
    async def scene() -> None:
        async with bench([slow()], coalesce=True, queue_capacity=3) as made:
            other = Requester(made.hub, "a2")
            running = asyncio.create_task(other.transport.run())
            await other.transport.wait_connected()
            sent = [await made.requester.send(make_request(i, budget_ms=900.0 - i)) for i in range(4)]
            theirs = [await other.send(make_request(i, agent="a2", budget_ms=950.0)) for i in range(3)]
            await asyncio.sleep(1)
            refusals = [made.requester.reply_to(one).refused for one in sent]
            assert refusals == [Refusal.QUEUE_FULL, None, None, None], "its most patient one gives way"
            assert [other.reply_to(one).refused for one in theirs] == [None, *[Refusal.QUEUE_FULL] * 2]
            running.cancel()

    run_virtual(scene())


def test_those_who_follow_are_refused_with_their_leader_when_the_worker_stops() -> None:
    async def scene() -> None:
        async with bench([slow()], coalesce=True, batch="none", stop_limit_s=0.1) as made:
            await made.requester.send(make_request(0, budget_ms=9000.0), grey=8)
            await asyncio.sleep(0.01)
            sent = [await made.requester.send(make_request(i, budget_ms=9000.0)) for i in range(1, 4)]
            await asyncio.sleep(0.01)
            made.services[0].stop()
            await asyncio.sleep(1)
            assert [made.requester.reply_to(one).refused for one in sent] == [Refusal.STOPPING] * 3

    run_virtual(scene())


def test_the_very_same_question_is_answered_from_the_cache_while_its_answer_is_young() -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], cache_ttl_s=2.0) as made:
            first = await made.requester.send(make_request(1, budget_ms=900.0))
            await asyncio.sleep(1)
            again = await made.requester.send(
                make_request(2, agent="a2", crops=[WireCrop((4, 4, 60, 60), (9, 9, 60, 60))])
            )
            await asyncio.sleep(0.001)
            reply = made.requester.reply_to(again)
            assert (reply.source, reply.batch_size, reply.infer_ms, reply.refused) == ("cache", 0, 0, None)
            assert [found.box for [found] in reply.detections] == [(4, 4, 20, 20)], "its own crops"
            assert made.requester.reply_to(first).source == "run"
            await asyncio.sleep(1.2)
            old = await made.requester.send(make_request(3, budget_ms=900.0))
            await asyncio.sleep(1)
            assert made.requester.reply_to(old).source == "run"
            assert len(detector.batches) == 2
            figures = made.services[0].worker_state().reuse
            assert figures is not None
            assert (figures.hits, figures.misses) == (1, 2)
            assert figures.hit_ratio == pytest.approx(1 / 3)
            assert figures.mean_ms == pytest.approx((0 + 100 + 100) / 3)
            assert figures.held_bytes > 0

    run_virtual(scene())


@pytest.mark.parametrize(
    ("changes", "grey"), [({"min_score": 0.4}, GREY), ({}, GREY + 16)], ids=["another threshold", "another picture"]
)
def test_the_cache_answers_no_other_question(changes: dict[str, object], grey: int) -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], cache_ttl_s=9.0) as made:
            await made.requester.send(make_request(1, budget_ms=900.0), grey=GREY)
            await asyncio.sleep(1)
            other = await made.requester.send(make_request(2, budget_ms=900.0, **changes), grey=grey)
            await asyncio.sleep(1)
            assert made.requester.reply_to(other).source == "run"
            assert len(detector.batches) == 2

    run_virtual(scene())


def test_a_failure_is_not_kept() -> None:
    async def scene() -> None:
        detector = slow()
        async with bench([detector], cache_ttl_s=9.0) as made:
            for seq in range(2):
                await made.requester.send(make_request(seq, budget_ms=900.0), grey=POISON_GREY)
                await asyncio.sleep(1)
            assert len(detector.batches) == 2

    run_virtual(scene())


def test_whoever_joined_a_run_is_told_so() -> None:
    async def scene() -> None:
        async with bench([slow()], coalesce=True) as made:
            sent = [await made.requester.send(make_request(i, budget_ms=900.0 + i)) for i in range(2)]
            await asyncio.sleep(1)
            assert [made.requester.reply_to(one).source for one in sent] == ["run", "joined"]

    run_virtual(scene())
