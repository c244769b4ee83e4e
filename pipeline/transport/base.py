"""The seam between Foveate and MQTT: one session that stays connected by itself."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """A received message."""

    topic: str
    payload: bytes
    retain: bool = False
    response_topic: str | None = None
    correlation: bytes | None = None
    properties: dict[str, str] = field(default_factory=dict)
    """User properties, for example ``traceparent``."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send. ``expiry_s`` is the MQTT 5 Message Expiry Interval in whole seconds."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    response_topic: str | None = None
    correlation: bytes | None = None
    expiry_s: int | None = None
    properties: dict[str, str] = field(default_factory=dict)


class PublishStatus(StrEnum):
    """What became of a publish; never an exception, because a dead broker is an expected state."""

    SENT = "sent"
    NOT_CONNECTED = "not_connected"
    REFUSED = "refused"  # bad topic, too large, or refused by the broker
    BACKLOG = "backlog"  # the client already holds as much as it may


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of the connection; ``reason`` is empty while connected."""

    connected: bool
    reason: str
    connects: int
    received: int
    ignored: int


Handler = Callable[[Message], None]
"""Called on the event loop for each message; must return at once and must not raise."""


class Transport(Protocol):
    """One client session.

    ``subscribe`` and ``on_connect`` are called before ``run``. ``run`` connects, subscribes, calls the births, and
    reconnects with back-off until it is cancelled; then it says goodbye properly. Subscriptions and births are
    renewed on every connect. Delivery is at most once for QoS 0 and in order per sender; nothing is kept for later.
    """

    @property
    def state(self) -> SessionState: ...

    def subscribe(self, topic_filter: str, handler: Handler, qos: int = 0) -> None: ...

    async def unsubscribe(self, topic_filter: str) -> None:
        """Take no more of a filter, now or after a reconnect. Called while ``run`` runs.

        Returns once all that the broker had sent on it is handled; or, where the broker does not say so, when the
        connection is lost or the time for its word is over.
        """
        ...

    def on_connect(self, birth: Callable[[], Awaitable[None]]) -> None: ...

    async def publish(self, outgoing: Outgoing) -> PublishStatus: ...

    async def wait_connected(self) -> None:
        """Return once the session is connected and subscribed."""
        ...

    async def run(self) -> None: ...
