"""An MQTT broker and its sessions inside one process: for tests, simulation, and a worker in the agent's process."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pipeline.transport.base import Handler, Message, Outgoing, PublishStatus, SessionState
from pipeline.transport.dispatch import Dispatcher, Subscription
from pipeline.transport.matching import matches, split_share, topic_fault

INBOX_MESSAGES = 1000
INBOX_BYTES = 32 * 1024 * 1024


class MemoryHub:
    """The broker: routes messages between the sessions that name it. Deterministic; made for one event loop.

    ``packet_bytes`` limits a message. Retained messages are kept until ``stop``, as by a broker without persistence.
    """

    def __init__(self, packet_bytes: int = 8 * 1024 * 1024 + 64 * 1024) -> None:
        self.packet_bytes = packet_bytes
        self._sessions: list[MemoryTransport] = []
        self._retained: dict[str, tuple[Message, float | None]] = {}
        self._turns: dict[str, int] = {}
        self._up = asyncio.Event()
        self._up.set()

    def stop(self) -> None:
        """Go down: every session is lost, no will is sent, nothing is remembered."""
        self._up.clear()
        self._retained.clear()
        self._turns.clear()
        for session in self._sessions[:]:
            session._lost("the broker went away")  # noqa: SLF001 - hub and session are one unit

    def start(self) -> None:
        """Come up again; the sessions come back by themselves."""
        self._up.set()

    async def _attach(self, session: "MemoryTransport") -> None:
        await self._up.wait()
        self._sessions.append(session)
        for subscription in session.subscriptions:
            group, topic_filter = split_share(subscription.topic_filter)
            if group is None:  # retained messages do not go to shared subscriptions
                for topic in sorted(self._retained):
                    if matches(topic_filter, topic) and (message := self._kept(topic)):
                        session._deliver(replace(message, retain=True))  # noqa: SLF001 - as above

    def _detach(self, session: "MemoryTransport") -> None:
        if session in self._sessions:
            self._sessions.remove(session)

    def _kept(self, topic: str) -> Message | None:
        message, expires_at_s = self._retained[topic]
        if expires_at_s is not None and asyncio.get_running_loop().time() >= expires_at_s:
            return None
        return message

    def _route(self, outgoing: Outgoing) -> None:
        message = Message(
            outgoing.topic,
            outgoing.payload,
            response_topic=outgoing.response_topic,
            correlation=outgoing.correlation,
            properties=dict(outgoing.properties),
        )
        if outgoing.retain:
            self._retain(message, outgoing.expiry_s)
        groups: dict[str, list[MemoryTransport]] = {}
        for session in self._sessions:
            for subscription in session.subscriptions:
                group, topic_filter = split_share(subscription.topic_filter)
                if not matches(topic_filter, message.topic):
                    continue
                if group is None:
                    session._deliver(message)  # noqa: SLF001 - as above
                    break  # overlapping filters bring one copy
                groups.setdefault(subscription.topic_filter, []).append(session)
        for name, members in groups.items():
            turn = self._turns.get(name, 0)
            self._turns[name] = turn + 1
            members[turn % len(members)]._deliver(message)  # noqa: SLF001 - as above

    def _retain(self, message: Message, expiry_s: int | None) -> None:
        if message.payload:
            now_s = asyncio.get_running_loop().time()
            self._retained[message.topic] = message, None if expiry_s is None else now_s + expiry_s
        else:
            self._retained.pop(message.topic, None)


class MemoryTransport:
    """One session on a hub; implements ``Transport``. What finds no room in its inbox is ignored and counted."""

    def __init__(self, hub: MemoryHub, will: Outgoing | None = None, name: str = "memory") -> None:
        self._hub = hub
        self._will = will
        self._dispatcher = Dispatcher(name)
        self._births: list[Callable[[], Awaitable[None]]] = []
        self._inbox: deque[Message] = deque()
        self._inbox_bytes = 0
        self._wake = asyncio.Event()
        self._emptied = asyncio.Event()
        self._ready = asyncio.Event()
        self._attached = False
        self._connects = 0
        self._reason = "not started"

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The session's subscriptions, in the order in which they were made."""
        return self._dispatcher.subscriptions

    @property
    def state(self) -> SessionState:
        counted = self._dispatcher
        reason = "" if self._attached else self._reason
        return SessionState(self._attached, reason, self._connects, counted.received, counted.ignored)

    def subscribe(self, topic_filter: str, handler: Handler, qos: int = 0) -> None:
        self._dispatcher.add(topic_filter, handler, qos)

    async def unsubscribe(self, topic_filter: str) -> None:
        self._dispatcher.leave(topic_filter)
        if self._inbox:
            self._emptied.clear()
            await self._emptied.wait()

    def on_connect(self, birth: Callable[[], Awaitable[None]]) -> None:
        self._births.append(birth)

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        if not self._attached:
            return PublishStatus.NOT_CONNECTED
        if topic_fault(outgoing.topic) or len(outgoing.payload) > self._hub.packet_bytes:
            return PublishStatus.REFUSED
        self._hub._route(outgoing)  # noqa: SLF001 - hub and session are one unit
        return PublishStatus.SENT

    async def wait_connected(self) -> None:
        await self._ready.wait()

    def abort(self) -> None:
        """End the connection without a goodbye, as a dead process or a cut cable does: the hub publishes the will."""
        if self._attached:
            self._lost("the connection was cut")
            if self._will is not None:
                self._hub._route(self._will)  # noqa: SLF001 - as above

    async def run(self) -> None:
        try:
            while True:
                await self._hub._attach(self)  # noqa: SLF001 - as above
                self._attached = True
                self._connects += 1
                await self._announce()
                await self._drain()
        finally:
            self._lost("stopped")

    async def _announce(self) -> None:
        for birth in self._births:
            await self._dispatcher.guard(birth)
        if self._attached:
            self._ready.set()

    async def _drain(self) -> None:
        while self._attached:
            while self._inbox and self._attached:
                message = self._inbox.popleft()
                self._inbox_bytes -= len(message.payload)
                self._dispatcher.dispatch(message)
            self._emptied.set()
            self._wake.clear()
            if self._attached:
                await self._wake.wait()

    def _deliver(self, message: Message) -> None:
        size = len(message.payload)
        if len(self._inbox) >= INBOX_MESSAGES or self._inbox_bytes + size > INBOX_BYTES:
            self._dispatcher.received += 1
            self._dispatcher.ignored += 1
            return
        self._inbox.append(message)
        self._inbox_bytes += size
        self._wake.set()

    def _lost(self, reason: str) -> None:
        self._hub._detach(self)  # noqa: SLF001 - as above
        self._attached = False
        self._reason = reason
        self._ready.clear()
        self._inbox.clear()
        self._inbox_bytes = 0
        self._emptied.set()
        self._wake.set()
