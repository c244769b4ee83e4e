"""The retained state tells agents what they decide by, and no more often than needed."""

import asyncio

import msgspec
import pytest

from cloud_worker.announce import worth_telling
from pipeline.timing import run_virtual
from pipeline.transport.base import Message
from pipeline.wire import topics
from pipeline.wire.codec import decode_worker_state
from pipeline.wire.messages import WorkerModel, WorkerState
from tests.support.detectors import ScriptedDetector
from tests.support.workers import Bench, bench, make_request

TOLD = WorkerState(worker="w", online=True, queue_length=1, queue_capacity=8, infer_ms_p95=20.0)


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


def test_the_beat_rises_with_every_heartbeat() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()], heartbeat_s=5.0) as made:
            seen = watch(made)
            await asyncio.sleep(16)
            assert [state.beat for _, _, state in seen] == [0, 1, 2, 3]
            assert [round(at_s) for at_s, _, _ in seen[1:]] == [5, 10, 15]

    run_virtual(scene())


def test_a_run_time_that_becomes_known_is_told_within_a_second() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()], heartbeat_s=60.0) as made:
            seen = watch(made)
            await asyncio.sleep(1.5)
            await made.requester.send(make_request(1))
            await asyncio.sleep(1.1)
            assert [state.infer_ms_p95 for _, _, state in seen] == [None, pytest.approx(20)]
            await asyncio.sleep(10)
            assert len(seen) == 2

    run_virtual(scene())


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
        ({"infer_ms_p95": 24.0}, False),
        ({"infer_ms_p95": 26.0}, True),
        ({"infer_ms_p95": None}, True),
        ({"models": [WorkerModel(name="m", version="2", label_set="x")]}, True),
    ],
)
def test_only_what_agents_decide_by_is_worth_telling(change: dict[str, object], worth: bool) -> None:
    assert worth_telling(TOLD, msgspec.structs.replace(TOLD, **change)) is worth
