"""Whatever arrives, whenever the worker stops: each request has exactly one end, and nothing late is run."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.policies.batch import BATCH_KINDS
from pipeline.timing import run_virtual
from pipeline.wire.messages import Refusal
from tests.support.detectors import POISON_GREY, ScriptedDetector
from tests.support.workers import Bench, bench, make_request


@dataclass(frozen=True)
class Arrival:
    gap_ms: int
    budget_ms: float
    weight: float
    grey: int
    width: int
    cancelled_after_ms: int | None = None


arrivals = st.builds(
    Arrival,
    gap_ms=st.integers(0, 40),
    budget_ms=st.floats(0.5, 300),
    weight=st.sampled_from([0.0, 1.0, 5.0]),
    grey=st.sampled_from([8, 80, 160, POISON_GREY]),
    width=st.sampled_from([64, 65, 96, 128]),
    cancelled_after_ms=st.none() | st.integers(0, 60),
)


async def cancel(made: Bench, name: bytes, after_s: float) -> None:
    await asyncio.sleep(after_s)
    await made.requester.cancel(name)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(BATCH_KINDS)),
    plan=st.lists(arrivals, min_size=1, max_size=30),
    max_batch=st.integers(1, 5),
    capacity=st.integers(1, 12),
    base_ms=st.integers(1, 60),
    each_ms=st.integers(0, 30),
    decode_ms=st.integers(0, 10),
    stop_after_ms=st.integers(0, 2000),
    coalesce=st.booleans(),
    cache_ttl_s=st.sampled_from([0.0, 0.05, 10.0]),
)
@example(  # a request that arrives in the very turn of the loop in which the last reply has gone out
    kind="deadline",
    plan=[Arrival(gap_ms=0, budget_ms=1.0, weight=0.0, grey=8, width=64)] * 2,
    max_batch=1,
    capacity=1,
    base_ms=1,
    each_ms=0,
    decode_ms=0,
    stop_after_ms=0,
    coalesce=False,
    cache_ttl_s=0.0,
)
def test_each_request_gets_one_reply_and_nothing_past_its_deadline_is_run(
    kind: str,
    plan: list[Arrival],
    max_batch: int,
    capacity: int,
    base_ms: int,
    each_ms: int,
    decode_ms: int,
    stop_after_ms: int,
    coalesce: bool,
    cache_ttl_s: float,
) -> None:
    detector = ScriptedDetector(run_s=lambda batch: (base_ms + each_ms * batch) / 1e3)

    async def scene() -> None:
        async with bench(
            [detector],
            decode_s=decode_ms / 1e3,
            batch=kind,
            batch_window_ms=10.0,
            max_batch=max_batch,
            queue_capacity=capacity,
            coalesce=coalesce,
            cache_ttl_s=cache_ttl_s,
        ) as made:
            service, loop = made.services[0], asyncio.get_running_loop()
            loop.call_later(stop_after_ms / 1e3, service.stop)
            sent: dict[bytes, Arrival] = {}
            cancels: list[asyncio.Task[None]] = []
            for seq, each in enumerate(plan):
                await asyncio.sleep(each.gap_ms / 1e3)
                if not any(one.topic_filter.startswith("$share/") for one in made.transports[0].subscriptions):
                    break  # it has left: what is sent now is for others
                request = make_request(seq, budget_ms=each.budget_ms, weight=each.weight)
                name = await made.requester.send(request, each.grey, (each.width, 64))
                sent[name] = each
                if each.cancelled_after_ms is not None:
                    cancels.append(asyncio.create_task(cancel(made, name, each.cancelled_after_ms / 1e3)))
            await asyncio.sleep(5)
            replies = {name: [reply for _, reply in got] for name, got in made.requester.replies.items()}
            received = service.statistics().received
            assert len(sent) == received
            assert Counter(map(len, replies.values())) == Counter({1: received})
            for name, [reply] in replies.items():
                if reply.refused is Refusal.CANCELLED:
                    assert sent[name].cancelled_after_ms is not None
                if reply.refused is None:
                    if reply.source == "run":  # the run of another may have begun when its own time was up
                        assert reply.total_ms - reply.infer_ms <= sent[name].budget_ms
                    assert reply.detections[0][0].label == f"grey{sent[name].grey}"
                assert 0 <= reply.batch_wait_ms <= reply.queue_ms <= reply.total_ms + 1e-9
            done = service.statistics()
            assert done.received == done.answered + sum(done.refused.values())
            assert done.queued == 0

    run_virtual(scene())
    assert all(len(greys) <= max_batch for greys in detector.batches)
    assert all(len({(-(-shape[1] // 32)) for shape in shapes}) == 1 for shapes in detector.shapes)
