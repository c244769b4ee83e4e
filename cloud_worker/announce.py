"""The worker's retained state: online at every connect, refreshed by a heartbeat, offline at the end."""

import asyncio
import math
from collections.abc import Callable
from typing import Literal

import msgspec

from pipeline.policies.tier_offers import wait_changed
from pipeline.timing import Clock
from pipeline.transport.base import Outgoing, PublishStatus, Transport
from pipeline.wire import topics
from pipeline.wire.codec import encode_worker_state
from pipeline.wire.messages import WorkerModel, WorkerState

LOOK_S = 1.0
"""How often a change of state is looked for, and so the most often it is announced."""
MISSED_BEATS = 3
"""Agents take a worker that missed so many for gone, and a broker that honours the expiry forgets that it was there."""
OFFLINE_KEPT_S = 24 * 3600
"""Worker ids are new with every start: a broker that honours the expiry forgets those of the past."""


def offline(worker: str, tier: Literal["edge", "cloud"] = "cloud", location: str = "") -> Outgoing:
    """The announcement that the worker is gone; also its will."""
    return _announcement(WorkerState(worker=worker, online=False, tier=tier, location=location))


def worth_telling(told: WorkerState, now: WorkerState) -> bool:
    """Whether a state differs so much from the announced one that it cannot wait for the next heartbeat."""
    return _gist(told) != _gist(now) or wait_changed(told.wait_ms, now.wait_ms)


def _gist(state: WorkerState) -> tuple[bool, list[WorkerModel], bool]:
    return state.online, state.models, state.queue_length >= state.queue_capacity


class Announcer:
    """Publishes what ``state`` returns. ``birth`` belongs into the transport's ``on_connect``."""

    def __init__(
        self, transport: Transport, state: Callable[[], WorkerState], heartbeat_s: float, clock: Clock
    ) -> None:
        self._transport = transport
        self._clock = clock
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
        next_beat_s = self._clock.now_s() + self._heartbeat_s
        while True:
            await asyncio.sleep(min(LOOK_S, max(0.001, next_beat_s - self._clock.now_s())))
            due = self._clock.now_s() >= next_beat_s
            if not due and (self._told is None or not worth_telling(self._told, self._state())):
                continue
            if due:
                next_beat_s = self._clock.now_s() + self._heartbeat_s
                self._beat += 1
            if self._transport.state.connected:
                await self.birth()

    async def farewell(self) -> PublishStatus:
        """Say that the worker is gone."""
        state = self._state()
        return await self._transport.publish(offline(state.worker, state.tier, state.location))


def _announcement(state: WorkerState) -> Outgoing:
    kept_s = math.ceil(MISSED_BEATS * state.heartbeat_s) if state.online else OFFLINE_KEPT_S
    return Outgoing(topics.worker(state.worker), encode_worker_state(state), qos=1, retain=True, expiry_s=kept_s)
