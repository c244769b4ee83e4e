"""The retained state tells agents what they decide by, and no more often than needed."""

import asyncio

import msgspec
import pytest

from cloud_worker.announce import Announcer, worth_telling
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.base import Message
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire import topics
from pipeline.wire.codec import decode_worker_state
from pipeline.wire.messages import WorkerModel, WorkerState
from tests.support.brokers import running
from tests.support.detectors import ScriptedDetector
from tests.support.workers import Bench, bench, make_request

TOLD = WorkerState(worker="w", online=True, queue_length=1, queue_capacity=4, infer_ms_p95=20.0)


def watch(made: Bench) -> list[tuple[float, bool, WorkerState]]:
    """Collect the announcements from now on, as a late subscriber sees them: (time, retained, state)."""
    seen: list[tuple[float, bool, WorkerState]] = []

    def on_state(message: Message) -> None:
        state = decode_worker_state(message.payload)
        assert isinstance(state, WorkerState)
        seen.append((asyncio.get_running_loop().time(), message.retain, state))

    made.requester.transport.subscribe(topics.ANY_WORKER, on_state)
    made.requester.transport.abort()  # filters are sent at the next connect
    return seen


def test_a_late_subscriber_reads_the_state_with_models_and_capacity() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()], queue_capacity=9) as made:
            await asyncio.sleep(2)
            seen = watch(made)
            await asyncio.sleep(0.1)
            [(_, retained, state)] = seen
            assert retained
            assert (state.worker, state.online, state.tier, state.queue_capacity) == ("w0", True, "cloud", 9)
            [model] = state.models
            assert (model.name, model.version, len(model.label_set)) == ("m", "1", 12)

    run_virtual(scene())


def test_the_announcement_tells_rate_wait_and_mean_length_of_the_queue() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 0.1)], heartbeat_s=1.0, max_batch=1) as made:
            seen = watch(made)
            for seq in range(20):
                await made.requester.send(make_request(seq))
                if seq % 2:  # in pairs: the second of each waits for the first
                    await asyncio.sleep(0.5)
            await asyncio.sleep(1)
            queue = seen[-1][2].queue
            assert queue is not None
            assert queue.wait_ms is not None
            assert queue.wait_ms == pytest.approx(50, abs=1)
            assert queue.mean_length == pytest.approx(queue.arrivals_per_s * queue.wait_ms / 1000, rel=0.01)

    run_virtual(scene())


def test_the_beat_rises_with_every_heartbeat() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()], heartbeat_s=5.0) as made:
            seen = watch(made)
            await asyncio.sleep(16)
            assert [state.beat for _, _, state in seen] == [0, 1, 2, 3]
            assert [round(at_s) for at_s, _, _ in seen[1:]] == [5, 10, 15]

    run_virtual(scene())


def test_work_alone_makes_no_announcement_before_the_next_heartbeat() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()], heartbeat_s=5.0) as made:
            seen = watch(made)
            await asyncio.sleep(0.1)
            for seq in range(100):
                await made.requester.send(make_request(seq))
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.1)
            assert [round(at_s) for at_s, _, _ in seen[1:]] == [5, 10]
            assert seen[-1][2].infer_ms_p95 == pytest.approx(20)

    run_virtual(scene())


def test_a_queue_that_is_full_and_one_that_has_room_again_are_told_within_a_second() -> None:
    async def scene() -> None:
        detector = ScriptedDetector(run_s=lambda _batch: 3.0)
        async with bench([detector], heartbeat_s=60.0, queue_capacity=2, max_batch=1) as made:
            seen = watch(made)
            await asyncio.sleep(0.1)
            for seq in range(3):
                await made.requester.send(make_request(seq, budget_ms=60_000.0))
                await asyncio.sleep(0.01)
            await asyncio.sleep(10)
            assert [state.queue_length for _, _, state in seen[:3]] == [0, 2, 1]
            assert seen[1][0] < 1.5

    run_virtual(scene())


def test_a_wait_that_grows_and_one_that_is_over_are_told_within_a_second_and_no_small_changes() -> None:
    async def scene() -> None:
        detector = ScriptedDetector(run_s=lambda batch: 0.2 * batch)
        async with bench([detector], heartbeat_s=60.0, queue_capacity=20, max_batch=1) as made:
            await made.requester.send(make_request(0))  # before it is known what a run takes, no wait can be told
            await asyncio.sleep(1)
            seen = watch(made)
            await asyncio.sleep(0.1)
            for seq in range(1, 16):
                await made.requester.send(make_request(seq, budget_ms=60_000.0))
            await asyncio.sleep(20)
            waits_ms = [state.wait_ms for _, _, state in seen]
            assert waits_ms[0] == waits_ms[-1] == 0.0
            assert 2000.0 < max(wait_ms or 0.0 for wait_ms in waits_ms) <= 3000.0
            assert len(seen) <= 5
            assert seen[-1][2].run_ms_p95 == {"m": pytest.approx(200.0)}

    run_virtual(scene())


def test_a_broker_forgets_an_announcement_whose_worker_has_missed_three_heartbeats() -> None:
    async def heard_after(silent_s: float) -> list[str]:
        hub = MemoryHub()
        worker, late = MemoryTransport(hub), MemoryTransport(hub)
        seen: list[str] = []
        late.subscribe(topics.ANY_WORKER, lambda message: seen.append(message.topic))
        async with running(worker):
            await Announcer(worker, lambda: TOLD, 5.0, LoopClock()).birth()
            await asyncio.sleep(silent_s)
            async with running(late):
                await asyncio.sleep(0.1)
        return seen

    assert run_virtual(heard_after(14.9)) == [topics.worker("w")]
    assert run_virtual(heard_after(15.1)) == []


def test_the_birth_is_repeated_after_the_broker_was_away() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()]) as made:
            made.hub.stop()
            await asyncio.sleep(10)
            seen = watch(made)
            made.hub.start()
            await asyncio.sleep(0.1)
            assert [(state.worker, state.online) for _, _, state in seen] == [("w0", True)]

    run_virtual(scene())


@pytest.mark.parametrize(
    ("change", "worth"),
    [
        ({"queue_length": 3, "served": 99}, False),
        ({"queue_length": 4}, True),
        ({"infer_ms_p95": 99.0}, False),
        ({"wait_ms": 20.0, "run_ms_p95": {"m": 99.0}}, False),
        ({"wait_ms": 35.0}, True),
        ({"infer_ms_p95": None}, False),
        ({"online": False}, True),
        ({"models": [WorkerModel(name="m", version="2", label_set="x")]}, True),
    ],
)
def test_only_what_agents_decide_by_is_worth_telling(change: dict[str, object], worth: bool) -> None:
    assert worth_telling(TOLD, msgspec.structs.replace(TOLD, **change)) is worth
