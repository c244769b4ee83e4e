"""How a worker leaves, so that nothing that was sent to it goes without an answer."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from cloud_worker.announce import Announcer
from cloud_worker.answers import Answers
from cloud_worker.batcher import Batcher
from cloud_worker.outbox import Outbox
from cloud_worker.outcomes import Refused
from pipeline.timing import Clock
from pipeline.transport.base import Transport
from pipeline.wire.messages import Refusal

LINGER_S = 0.2
"""So long requests are still taken after the goodbye: they were sent before it was heard."""
STOPPING = Refused(Refusal.STOPPING, "the worker is stopping")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainedParts:
    """What of a worker takes part in its leaving."""

    announcer: Announcer
    answers: Answers
    batcher: Batcher
    outbox: Outbox


class Drain:
    """Says goodbye, leaves the shares, finishes what there is, and refuses what ``limit_s`` does not suffice for.

    A share is left in an orderly way: what the broker had sent on it has arrived before the worker goes on. Whatever
    hangs (the broker, the model), all of it is over within ``limit_s``.
    """

    def __init__(self, limit_s: float, parts: DrainedParts, clock: Clock) -> None:
        self._limit_s = limit_s
        self._parts = parts
        self._clock = clock
        self._shares: list[tuple[Transport, str]] = []
        self._over = False

    @property
    def over(self) -> bool:
        """Whether nothing is taken on any more."""
        return self._over

    def share(self, session: Transport, topic_filter: str) -> None:
        """Note a share that is to be left."""
        self._shares.append((session, topic_filter))

    async def run(self, *, hung: bool) -> None:
        """Leave. ``hung``: the model will finish nothing, so that all is refused at once."""
        began_s = self._clock.now_s()
        if hung:
            self._refuse_all()
        await _within(self._limit_s / 8, self._parts.announcer.farewell())
        if not hung:
            await asyncio.sleep(min(LINGER_S, self._limit_s / 8))
        for session, topic_filter in self._shares:
            await _within(self._limit_s / 8 / len(self._shares), session.unsubscribe(topic_filter))
        finish_by_s = began_s + 0.75 * self._limit_s
        if not await _within(finish_by_s - self._clock.now_s(), self._parts.answers.wait_settled()):
            logger.warning("what is not done after %.1f s of leaving is refused", 0.75 * self._limit_s)
        self._refuse_all()
        await _within(self._limit_s / 4, self._parts.outbox.wait_empty())

    def _refuse_all(self) -> None:
        self._over = True
        self._parts.batcher.refuse_all(STOPPING)
        self._parts.batcher.abandon_run(STOPPING)


async def _within(limit_s: float, step: Coroutine[Any, Any, object]) -> bool:
    """Whether a step was done in time; one that was not is left."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await step
            return True
    return False
