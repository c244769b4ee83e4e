"""The circuit breaker with the echo probes by which it finds out that the way to the cloud is open again.

While the circuit is closed, a rare probe measures a way that nobody uses.
"""

import itertools
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.policies.breaker import Breaker, Circuit
from pipeline.timing import Clock
from pipeline.transport.base import Outgoing, PublishStatus, Transport
from pipeline.wire.codec import BadPayload, decode_reply, encode_echo
from pipeline.wire.messages import Echo, Refusal

FORGET_S = 10.0
"""A probe that has not come back by then is lost, and another may take its place."""
REFRESH_EVERY_S = 5.0
"""A way that was not used for so long is measured by a probe."""
_MOST_ROUND_TRIP_S = 1.0
"""An echo that took longer was held back by an outage, and measured that."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe under way. ``idle``: sent while the circuit was closed and nothing else was on the way."""

    sent_at_s: float
    size_bytes: int
    idle: bool

    def measures(self, now_s: float) -> bool:
        """Whether its echo, which comes now, says what the way takes."""
        return self.idle and now_s - self.sent_at_s <= _MOST_ROUND_TRIP_S


class ProbedCircuit:
    """The breaker of a target. ``changed`` is called when it opens or closes, and when the session is connected.

    Probes go the way of the requests, behind whatever waits there: one that comes back shows that the pictures before
    it have left the link too. Whoever runs the uplink calls ``probe`` at ``probe_at_s``, with the moment at which the
    way was used last (None: never), by which a way that is not used is probed every ``refresh_every_s``.
    """

    def __init__(
        self, topic: str, reply_topic: str, breaker: Breaker, bulk: Transport, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._topic, self._reply_topic = topic, reply_topic
        self._bulk, self._clock, self._changed = bulk, clock, changed
        self._breaker = breaker
        self.refresh_every_s = REFRESH_EVERY_S
        self._session, self._numbers = secrets.token_bytes(4), itertools.count(1)
        self._under_way: dict[bytes, Probe] = {}
        self._counted_from_s = self._tried_at_s = -math.inf
        self.sent = 0

    @property
    def circuit(self) -> Circuit:
        return self._breaker.circuit

    @property
    def closed(self) -> bool:
        """Whether requests may be sent."""
        return self._breaker.closed

    def answered(self) -> None:
        """An answer came, in time or late."""
        self._went(self._breaker.answered())

    def missed(self) -> None:
        """No answer came by the deadline, or none can be asked for."""
        self._went(self._breaker.missed(self._clock.now_s()))

    def refused(self) -> None:
        """A reply came that is of no use, or says that there will be no answer."""
        self._went(self._breaker.refused(self._clock.now_s()))

    def backed_up(self) -> None:
        """The link takes no more."""
        self._went(self._breaker.opened(self._clock.now_s()))

    def look_again(self) -> None:
        """A sign of life came: probes under way may have been lost before it, so another one is due at once."""
        self._counted_from_s = self._clock.now_s()
        self._breaker = self._breaker.probe_now(self._clock.now_s())

    def connected(self) -> None:
        """The session is connected: what was sent before it may have been lost."""
        self.look_again()
        self._changed()

    def _went(self, breaker: Breaker) -> None:
        before, self._breaker = self._breaker, breaker
        if before.closed != breaker.closed:
            self._changed()

    def probe_at_s(self, used_at_s: float | None) -> float:
        """When a probe is to be sent; infinite where none is."""
        if not self._bulk.state.connected:
            return math.inf
        self._forget_old()
        if self._breaker.closed:
            return math.inf if used_at_s is None else max(used_at_s, self._tried_at_s) + self.refresh_every_s
        sent_s = [probe.sent_at_s for probe in self._under_way.values() if not probe.idle]
        counted_s = [at_s for at_s in sent_s if at_s >= self._counted_from_s]
        next_s = self._breaker.next_probe_s(len(counted_s))
        return counted_s[0] + FORGET_S if next_s is None else next_s

    def _forget_old(self) -> None:
        oldest_s = self._clock.now_s() - FORGET_S
        self._under_way = {name: probe for name, probe in self._under_way.items() if probe.sent_at_s > oldest_s}

    async def probe(self, used_at_s: float | None) -> None:
        """Send a probe if it is time. Where the circuit is open it gives up what was asked before it: the breaker has
        counted that as missed.
        """
        now_s, idle = self._clock.now_s(), self._breaker.closed
        if now_s < self.probe_at_s(used_at_s):
            return
        number = next(self._numbers)
        correlation = self._session + number.to_bytes(8, "big")
        self._breaker, self._tried_at_s = self._breaker.probed(now_s), now_s
        payload = encode_echo(Echo(echo=number, give_up=not idle))
        self._under_way[correlation] = Probe(now_s, len(payload), idle)
        status = await self._bulk.publish(
            Outgoing(
                self._topic,
                payload,
                response_topic=self._reply_topic,
                correlation=correlation,
                expiry_s=math.ceil(FORGET_S),
            )
        )
        if status is PublishStatus.SENT:
            self.sent += 1
        else:
            self._under_way.pop(correlation, None)

    def echoed(self, correlation: bytes | None, payload: bytes) -> Probe | None:
        """Take in a reply that answers no request; returns the probe that it answers.

        A worker that does not know probes refuses one as a bad request, which shows as much as an echo.
        """
        probe = self._under_way.pop(correlation, None) if correlation else None
        if probe is None:
            return None
        reply = decode_reply(payload)
        if not isinstance(reply, BadPayload) and reply.refused in (None, Refusal.BAD_PAYLOAD):
            self._went(self._breaker.echoed())
        return probe
