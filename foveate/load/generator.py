"""Agents that ask as drawn: each with an MQTT session and a name of its own, and none waiting for an answer."""

import asyncio
import contextlib
import math
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from foveate.load.arrivals import Arrival
from foveate.load.ledger import Ledger
from foveate.load.outcomes import Outcome
from foveate.load.pictures import Pictures
from pipeline.errors import BrokerError
from pipeline.timing import Clock
from pipeline.transport.base import Message, Outgoing, PublishStatus, Transport
from pipeline.wire import topics
from pipeline.wire.codec import decode_worker_state, encode_request
from pipeline.wire.messages import Request, WireCrop, WorkerState

LEAD_S = 0.1
"""From the drawing up of the account to the first request's zero."""
GRACE_S = 1.0
"""So long after the last deadline late answers are still waited for."""
AFTER_S = 0.2
"""So long after the last reply, when none is owed any more, a second one to the same request would be seen."""
LEAST_BUDGET_MS = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """Whom requests are for."""

    model: str
    tier: str = "cloud"
    min_score: float = 0.5


class Generator:
    """Offers load over several sessions, and watches which workers there are. ``new_session`` makes a session each.

    Raises ConfigError on names that cannot be part of a topic.
    """

    def __init__(self, target: Target, agents: int, new_session: Callable[[], Transport], clock: Clock) -> None:
        self._target, self._clock = target, clock
        self._ledger: Ledger | None = None
        self._begun_s = 0.0
        self._workers: dict[str, WorkerState] = {}
        self._heard = asyncio.Event()
        name = f"load-{secrets.token_hex(3)}"
        self._agents = [f"{name}-{number}" for number in range(agents)]
        self._topic = topics.request(target.tier, target.model)
        self._sessions = [new_session() for _ in self._agents]
        for agent, session in zip(self._agents, self._sessions, strict=True):
            session.subscribe(topics.reply(agent), self._on_reply)
        self._watch = new_session()
        self._watch.subscribe(topics.ANY_WORKER, self._on_worker, qos=1)

    @contextlib.asynccontextmanager
    async def connected(self, limit_s: float = 10.0) -> AsyncIterator[None]:
        """All sessions open until the block ends. Raises BrokerError where they are not within ``limit_s``."""
        running = [asyncio.ensure_future(session.run()) for session in (*self._sessions, self._watch)]
        try:
            try:
                async with asyncio.timeout(limit_s):
                    for session in (*self._sessions, self._watch):
                        await session.wait_connected()
            except TimeoutError:
                reason = next((each.state.reason for each in self._sessions if not each.state.connected), "")
                raise BrokerError(f"The load generator has no connection after {limit_s:g} s: {reason}") from None
            yield
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    @property
    def workers(self) -> dict[str, WorkerState]:
        """Those that are there and serve the model, as last announced, by name."""
        return {name: state for name, state in self._workers.items() if self._serves(state)}

    async def wait_workers(self, count: int, limit_s: float) -> None:
        """Return once so many workers are there. Raises BrokerError where they are not within ``limit_s``."""
        try:
            async with asyncio.timeout(limit_s):
                while len(self.workers) < count:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            raise BrokerError(
                f"{len(self.workers)} of {count} workers serve {self._target.model!r} in the tier"
                f" {self._target.tier!r} after {limit_s:g} s; start them, or name the model that they serve."
            ) from None

    async def offer(self, requests: Sequence[Arrival], pictures: Pictures) -> list[Outcome]:
        """Send each request at its moment, wait for what may still come, and say what became of all.

        One run at a time. Who is behind sends at once: nothing is left out but what would be of no use any more.
        """
        ledger = self._ledger = Ledger(requests)
        self._begun_s = self._clock.now_s() + LEAD_S
        epoch = secrets.randbelow(2**31) + 1
        for arrival in requests:
            await self._until(arrival.at_s)
            await self._send(ledger, arrival, pictures.jpeg(arrival.size_px, arrival.picture, epoch), epoch)
        last_s = max((each.at_s + each.deadline_s for each in requests), default=0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(last_s + GRACE_S - self._now_s()):
                await ledger.settled()
        await asyncio.sleep(AFTER_S)
        self._ledger = None
        return ledger.outcomes()

    def _now_s(self) -> float:
        return self._clock.now_s() - self._begun_s

    async def _until(self, at_s: float) -> None:
        # Also without a wait the loop gets its turn, so that replies are taken in while it is behind.
        await asyncio.sleep(max(0.0, at_s - self._now_s()))

    async def _send(self, ledger: Ledger, arrival: Arrival, jpeg: bytes, epoch: int) -> None:
        now_s = self._now_s()
        budget_ms = (arrival.at_s + arrival.deadline_s - now_s) * 1e3
        if budget_ms <= LEAST_BUDGET_MS:
            ledger.not_sent(arrival.number, "too_late_to_send")
            return
        message = self._message(arrival, jpeg, epoch, budget_ms, ledger.correlation(arrival.number))
        ledger.sent(arrival.number, now_s)
        status = await self._sessions[arrival.agent].publish(message)
        if status is not PublishStatus.SENT:
            ledger.not_sent(arrival.number, status.value)

    def _message(self, arrival: Arrival, jpeg: bytes, epoch: int, budget_ms: float, correlation: bytes) -> Outgoing:
        height, width = arrival.size_px
        whole, agent = (0, 0, width, height), self._agents[arrival.agent]
        request = Request(
            agent=agent,
            camera="load",
            epoch=epoch,
            seq=arrival.number,
            budget_ms=budget_ms,
            weight=1.0,
            kind="frame",
            frame_width=width,
            frame_height=height,
            crops=[WireCrop(whole, whole)],
            model=self._target.model,
            min_score=self._target.min_score,
        )
        return Outgoing(
            self._topic,
            encode_request(request, jpeg),
            response_topic=topics.reply(agent),
            correlation=correlation,
            expiry_s=max(1, math.ceil(budget_ms / 1e3)),
        )

    def _on_reply(self, message: Message) -> None:
        if self._ledger is not None:
            self._ledger.replied(message.correlation, message.payload, self._now_s())

    def _on_worker(self, message: Message) -> None:
        state = decode_worker_state(message.payload)
        if isinstance(state, WorkerState):
            self._workers[state.worker] = state
            self._heard.set()

    def _serves(self, state: WorkerState) -> bool:
        named = any(model.name == self._target.model for model in state.models)
        return state.online and state.tier == self._target.tier and named
