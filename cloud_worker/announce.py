"""The worker's retained state: online at every connect, refreshed by a heartbeat, offline at the end."""

import asyncio
from collections.abc import Callable

import msgspec

from pipeline.transport.base import Outgoing, PublishStatus, Transport
from pipeline.wire import topics
from pipeline.wire.codec import encode_worker_state
from pipeline.wire.messages import WorkerState

LOOK_S = 1.0
"""How often a change of state is looked for, and so the most often it is announced."""
OFFLINE_KEPT_S = 24 * 3600
"""Worker ids are new with every start: a broker that honours the expiry forgets those of the past."""


def offline(worker: str) -> Outgoing:
    """The announcement that the worker is gone; also its will."""
    return _announcement(WorkerState(worker=worker, online=False))


def worth_telling(told: WorkerState, now: WorkerState) -> bool:
    """Whether a state differs from the announced one in what an agent decides by.

    That is: another set of models, a queue that crossed half of its capacity, or a run time that moved by a quarter.
    """
    if (told.online, told.models) != (now.online, now.models):
        return True
    if (2 * told.queue_length >= told.queue_capacity) != (2 * now.queue_length >= now.queue_capacity):
        return True
    before_ms, after_ms = told.infer_ms_p95, now.infer_ms_p95
    if before_ms is None or after_ms is None:
        return before_ms is not after_ms
    return abs(after_ms - before_ms) > 0.25 * before_ms


class Announcer:
    """Publishes what ``state`` returns. ``birth`` belongs into the transport's ``on_connect``."""

    def __init__(self, transport: Transport, state: Callable[[], WorkerState], heartbeat_s: float) -> None:
        self._transport = transport
        self._state = state
        self._heartbeat_s = heartbeat_s
        self._beat = 0
        self._told: WorkerState | None = None

    async def birth(self) -> None:
        """Say that the worker is there."""
        self._told = msgspec.structs.replace(self._state(), beat=self._beat, heartbeat_s=self._heartbeat_s)
        await self._transport.publish(_announcement(self._told))

    async def run(self) -> None:
        """Repeat the announcement with every heartbeat, and sooner when it is worth telling; until cancelled."""
        loop = asyncio.get_running_loop()
        next_beat_s = loop.time() + self._heartbeat_s
        while True:
            await asyncio.sleep(min(LOOK_S, self._heartbeat_s))
            due = loop.time() >= next_beat_s
            if not due and (self._told is None or not worth_telling(self._told, self._state())):
                continue
            if due:
                next_beat_s = loop.time() + self._heartbeat_s
                self._beat += 1
            if self._transport.state.connected:
                await self.birth()

    async def farewell(self, worker: str) -> PublishStatus:
        """Say that the worker is gone."""
        return await self._transport.publish(offline(worker))


def _announcement(state: WorkerState) -> Outgoing:
    kept_s = None if state.online else OFFLINE_KEPT_S
    return Outgoing(topics.worker(state.worker), encode_worker_state(state), qos=1, retain=True, expiry_s=kept_s)
