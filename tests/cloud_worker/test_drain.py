"""A worker that is stopped leaves nobody without an answer."""

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.timing import run_virtual
from pipeline.transport.base import Message
from pipeline.wire import topics
from pipeline.wire.codec import decode_worker_state
from pipeline.wire.messages import Refusal, WorkerState
from tests.support.detectors import ScriptedDetector
from tests.support.workers import bench, make_request


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_a_stopped_worker_finishes_what_it_has_and_what_was_sent_before_its_goodbye_was_heard() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 0.3)], batch="none") as made:
            sent = [await made.requester.send(make_request(seq, budget_ms=5000.0)) for seq in range(2)]
            await asyncio.sleep(0.1)
            made.services[0].stop()
            await asyncio.sleep(0.1)
            sent.append(await made.requester.send(make_request(2, budget_ms=5000.0)))
            await made.tasks[0]
            assert [made.requester.reply_to(one).refused for one in sent] == [None] * 3

    run_virtual(scene())


def test_the_goodbye_comes_first_and_then_the_others_have_all_the_work() -> None:
    async def scene() -> None:
        told: list[tuple[float, str, bool]] = []

        def hear(message: Message) -> None:
            state = decode_worker_state(message.payload)
            assert isinstance(state, WorkerState)
            told.append((now_s(), state.worker, state.online))

        slow = [ScriptedDetector(run_s=lambda _batch: 0.5) for _ in range(2)]
        async with bench(slow, batch="none") as made:
            made.requester.transport.subscribe(topics.ANY_WORKER, hear)
            held = await made.requester.send(make_request(0, budget_ms=9000.0))
            await asyncio.sleep(0.1)
            stopped_s = now_s()
            made.services[0].stop()
            await asyncio.sleep(0.01)
            assert (stopped_s, "w0", False) in told
            await asyncio.sleep(0.3)
            before = made.services[0].statistics().received
            sent = [await made.requester.send(make_request(seq, budget_ms=9000.0)) for seq in range(1, 9)]
            await made.tasks[0]
            assert made.services[0].statistics().received == before == 1
            await asyncio.sleep(5)
            assert all(made.requester.reply_to(one).refused is None for one in (held, *sent))

    run_virtual(scene())


def test_what_cannot_be_finished_within_the_limit_is_refused() -> None:
    async def scene() -> None:
        detector = ScriptedDetector(run_s=lambda _batch: 0.6)
        async with bench([detector], batch="none", stop_limit_s=2.0) as made:
            sent = [await made.requester.send(make_request(seq, budget_ms=9000.0)) for seq in range(5)]
            await asyncio.sleep(0.1)
            made.services[0].stop()
            stopped_s = now_s()
            await made.tasks[0]
            assert now_s() - stopped_s <= 2.0
            refused = [made.requester.reply_to(one).refused for one in sent]
            assert refused == [None] * 2 + [Refusal.STOPPING] * 3

    run_virtual(scene())


@settings(max_examples=40, deadline=None)
@given(
    gaps_ms=st.lists(st.integers(0, 80), min_size=1, max_size=40),
    run_ms=st.integers(1, 400),
    stop_after_ms=st.integers(0, 800),
    limit_ms=st.integers(100, 4000),
)
def test_of_two_workers_of_which_one_stops_every_request_has_one_reply_and_the_stop_its_limit(
    gaps_ms: list[int], run_ms: int, stop_after_ms: int, limit_ms: int
) -> None:
    async def scene() -> None:
        detectors = [ScriptedDetector(run_s=lambda batch: run_ms * batch / 1e3) for _ in range(2)]
        async with bench(detectors, stop_limit_s=limit_ms / 1e3) as made:
            ended_s: list[float] = []
            made.tasks[0].add_done_callback(lambda _task: ended_s.append(now_s()))
            began_s = now_s()
            asyncio.get_running_loop().call_later(stop_after_ms / 1e3, made.services[0].stop)
            sent = []
            for seq, gap_ms in enumerate(gaps_ms):
                await asyncio.sleep(gap_ms / 1e3)
                sent.append(await made.requester.send(make_request(seq, budget_ms=600.0)))
            await asyncio.sleep(10)
            assert Counter(len(made.requester.replies.get(one, ())) for one in sent) == {1: len(sent)}
            assert ended_s[0] - began_s <= (stop_after_ms + limit_ms) / 1e3 + 1e-6

    run_virtual(scene())
