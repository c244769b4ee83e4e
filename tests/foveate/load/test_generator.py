"""The generator asks at the moments that were drawn, whatever the workers do, and accounts for every request."""

import asyncio
from collections.abc import Sequence

import pytest

from foveate.load.arrivals import Arrival, Mix, arrivals
from foveate.load.generator import Generator, Target
from foveate.load.outcomes import End, Outcome, summarise
from foveate.load.pictures import Pictures
from pipeline.errors import BrokerError
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire.jpeg import jpeg_size
from tests.support.detectors import ScriptedDetector
from tests.support.workers import bench

SIZES = ((64, 64), (64, 96))
MIX = Mix(deadlines_s=(0.06, 0.4), sizes_px=SIZES, agents=3)
PICTURES = Pictures(SIZES)


async def offered(hub: MemoryHub, requests: Sequence[Arrival], workers: int, agents: int = 3) -> list[Outcome]:
    generator = Generator(Target("m", min_score=0.3), agents, lambda: MemoryTransport(hub), LoopClock())
    async with generator.connected():
        await generator.wait_workers(workers, limit_s=5.0)
        return await generator.offer(requests, PICTURES)


def serve(requests: Sequence[Arrival], detectors: int = 1, settings: dict[str, object] | None = None) -> list[Outcome]:
    async def scene() -> list[Outcome]:
        async with bench([ScriptedDetector() for _ in range(detectors)], **(settings or {})) as made:
            return await offered(made.hub, requests, detectors)

    return run_virtual(scene())


@pytest.mark.parametrize("rate", [10.0, 80.0])
def test_every_request_goes_out_at_its_moment_however_slow_the_worker_is(rate: float) -> None:
    requests = arrivals("bursty", rate, 5.0, seed=1, mix=MIX)
    outcomes = serve(requests)
    summary = summarise(outcomes, 5.0)
    assert [each.sent_s for each in outcomes] == pytest.approx([each.at_s for each in requests])
    assert summary.late_sends == 0
    assert summary.sent == summary.in_time + summary.late + sum(summary.refused.values()) + summary.unanswered
    assert (summary.unanswered, summary.answered_twice) == (0, 0)
    assert summary.in_time > 0
    if rate == 80.0:  # twice what one worker of 20 ms a picture can do
        assert set(summary.refused) & {"infeasible", "expired"}


def test_two_workers_share_the_requests_and_each_tells_its_part() -> None:
    summary = summarise(serve(arrivals("poisson", 60.0, 5.0, seed=2, mix=MIX), detectors=2), 5.0)
    assert set(summary.servers) == {"w0", "w1"}
    assert min(summary.servers.values()) > 0.3 * summary.in_time
    infer = summary.segments["infer"]
    assert infer is not None
    assert infer.p50_ms >= 20.0


def test_pictures_are_run_unless_repeats_are_asked_for() -> None:
    settings: dict[str, object] = {"coalesce": True, "cache_ttl_s": 10.0}
    fresh = summarise(serve(arrivals("poisson", 20.0, 5.0, seed=3, mix=MIX), settings=settings), 5.0)
    assert set(fresh.sources) == {"run"}
    mix = Mix(MIX.deadlines_s, SIZES, MIX.agents, repeat_share=0.5)
    repeated = summarise(serve(arrivals("poisson", 20.0, 5.0, seed=3, mix=mix), settings=settings), 5.0)
    assert repeated.sources["cache"] > 0.3 * repeated.in_time


def test_what_nobody_answers_is_given_up_after_its_deadline() -> None:
    async def scene() -> list[Outcome]:
        hub = MemoryHub()
        generator = Generator(Target("m"), 3, lambda: MemoryTransport(hub), LoopClock())
        async with generator.connected():
            return await generator.offer(arrivals("poisson", 20.0, 1.0, seed=4, mix=MIX), PICTURES)

    summary = summarise(run_virtual(scene()), 1.0)
    assert summary.unanswered == summary.sent == summary.offered > 0


def test_a_worker_that_answers_twice_is_found_out_and_one_answer_counts() -> None:
    async def scene() -> list[Outcome]:
        async with bench([ScriptedDetector()]) as made:
            echoing = MemoryTransport(made.hub)
            tasks: set[asyncio.Task[object]] = set()

            def again(message: Message) -> None:
                if not message.properties:  # its own copy comes back to it as well
                    copy = Outgoing(
                        message.topic, message.payload, correlation=message.correlation, properties={"copy": "1"}
                    )
                    tasks.add(asyncio.ensure_future(echoing.publish(copy)))

            echoing.subscribe("foveate/v1/rep/+", again)
            running = asyncio.ensure_future(echoing.run())
            await echoing.wait_connected()
            outcomes = await offered(made.hub, arrivals("poisson", 10.0, 2.0, seed=5, mix=MIX), 1)
            running.cancel()
            return outcomes

    summary = summarise(run_virtual(scene()), 2.0)
    assert summary.in_time + summary.late == summary.answered_twice > 0


def test_a_broker_that_goes_down_costs_what_could_not_be_sent_and_is_said() -> None:
    async def scene() -> list[Outcome]:
        async with bench([ScriptedDetector()]) as made:
            asyncio.get_running_loop().call_later(2.0, made.hub.stop)
            return await offered(made.hub, arrivals("poisson", 20.0, 4.0, seed=6, mix=MIX), 1)

    outcomes = run_virtual(scene())
    summary = summarise(outcomes, 4.0)
    assert summary.not_sent["not_connected"] > 10
    assert all(each.sent_s is None for each in outcomes if each.end is End.NOT_SENT)


def test_workers_that_do_not_come_are_said_to_be_missing() -> None:
    with pytest.raises(BrokerError, match="0 of 1 workers serve 'm'"):
        run_virtual(offered(MemoryHub(), [], 1))


def test_the_bytes_of_a_picture_are_its_own_and_it_stays_the_picture() -> None:
    for size in SIZES:
        first, again = PICTURES.jpeg(size, 1, run=7), PICTURES.jpeg(size, 1, run=7)
        assert first == again
        assert len({first, PICTURES.jpeg(size, 33, run=7), PICTURES.jpeg(size, 1, run=8)}) == 3, "of the same pixels"
        assert jpeg_size(first) == (size[1], size[0])
