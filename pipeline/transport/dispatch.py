"""From a received message to its handler; shared by all transports."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pipeline.transport.base import Handler, Message
from pipeline.transport.matching import filter_fault, matches, split_share

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic filter, as subscribed to, and who handles what comes in on it."""

    topic_filter: str
    handler: Handler
    qos: int


class Dispatcher:
    """The subscriptions of one session. A message goes to the first filter that matches it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._subscriptions: dict[str, Subscription] = {}
        self._left: set[str] = set()
        self._reported: set[str] = set()
        self.received = 0
        self.ignored = 0

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """What a connection subscribes to."""
        return tuple(one for name, one in self._subscriptions.items() if name not in self._left)

    def add(self, topic_filter: str, handler: Handler, qos: int) -> None:
        """Add a subscription. Raises ValueError on an invalid or a repeated filter, or a wrong QoS."""
        fault = filter_fault(topic_filter)
        if fault or qos not in {0, 1, 2}:
            raise ValueError(f"cannot subscribe to {topic_filter!r} with QoS {qos}: {fault or 'QoS is 0, 1 or 2'}")
        if topic_filter in self._subscriptions:
            raise ValueError(f"{topic_filter!r} is subscribed to already")
        self._subscriptions[topic_filter] = Subscription(topic_filter, handler, qos)

    def leave(self, topic_filter: str) -> None:
        """Subscribe to a filter no more; what still comes in on it is handled. Raises ValueError on an unknown one."""
        if topic_filter not in self._subscriptions:
            raise ValueError(f"{topic_filter!r} is not subscribed to")
        self._left.add(topic_filter)

    def dispatch(self, message: Message) -> None:
        """Hand a message to its handler; one that raises is counted, reported once, and harms nothing else."""
        self.received += 1
        for subscription in self._subscriptions.values():
            if matches(split_share(subscription.topic_filter)[1], message.topic):
                self._call(subscription, message)
                return
        self.ignored += 1

    async def guard(self, birth: Callable[[], Awaitable[None]]) -> None:
        """Run a birth; one that raises is reported and harms nothing else."""
        try:
            await birth()
        except Exception:  # noqa: BLE001 - the supervisor of all births
            _log.exception("%s: a birth failed", self._name)

    def _call(self, subscription: Subscription, message: Message) -> None:
        try:
            subscription.handler(message)
        except Exception:  # noqa: BLE001 - the supervisor of all handlers
            self.ignored += 1
            if subscription.topic_filter not in self._reported:
                self._reported.add(subscription.topic_filter)
                _log.exception(
                    "%s: the handler of %s failed; further failures are only counted",
                    self._name,
                    subscription.topic_filter,
                )
