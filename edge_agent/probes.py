"""The circuit breaker with the echo probes by which it finds out that the way to the cloud is open again."""

import itertools
import math
import secrets
from collections.abc import Callable

from edge_agent.settings import UplinkSettings
from pipeline.policies.breaker import Breaker, Circuit
from pipeline.timing import Clock
from pipeline.transport.base import Outgoing, PublishStatus, Transport
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_reply, encode_echo
from pipeline.wire.messages import Echo, Refusal

FORGET_S = 10.0
"""A probe that has not come back by then is lost, and another may take its place."""


class ProbedCircuit:
    """The breaker of an uplink. ``changed`` is called when it opens or closes, and when the session is connected.

    Probes go the way of the requests, behind whatever waits there: one that comes back shows that the pictures before
    it have left the link too. Whoever runs the uplink calls ``probe`` at ``probe_at_s``.
    """

    def __init__(
        self, agent: str, settings: UplinkSettings, bulk: Transport, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._topic, self._reply_topic = topics.request(settings.tier, settings.model), topics.reply(agent)
        self._bulk, self._clock, self._changed = bulk, clock, changed
        self._breaker = Breaker(settings.misses_to_open, settings.probe_every_s)
        self._session, self._numbers = secrets.token_bytes(4), itertools.count(1)
        self._sent_at_s: dict[bytes, float] = {}
        self._counted_from_s = -math.inf
        self.sent = 0
        bulk.on_connect(self._connected)

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

    async def _connected(self) -> None:
        self.look_again()
        self._changed()

    def _went(self, breaker: Breaker) -> None:
        before, self._breaker = self._breaker, breaker
        if before.closed != breaker.closed:
            self._changed()

    def probe_at_s(self) -> float:
        """When a probe is to be sent; infinite where none is."""
        if self._breaker.closed or not self._bulk.state.connected:
            return math.inf
        self._forget_old()
        unanswered_s = [at_s for at_s in self._sent_at_s.values() if at_s >= self._counted_from_s]
        at_s = self._breaker.next_probe_s(len(unanswered_s))
        return unanswered_s[0] + FORGET_S if at_s is None else at_s

    def _forget_old(self) -> None:
        oldest_s = self._clock.now_s() - FORGET_S
        self._sent_at_s = {name: at_s for name, at_s in self._sent_at_s.items() if at_s > oldest_s}

    async def probe(self) -> None:
        """Send a probe if it is time. It gives up what was asked before it: the breaker has counted it as missed."""
        now_s = self._clock.now_s()
        if now_s < self.probe_at_s():
            return
        number = next(self._numbers)
        correlation = self._session + number.to_bytes(8, "big")
        self._breaker = self._breaker.probed(now_s)
        self._sent_at_s[correlation] = now_s
        status = await self._bulk.publish(
            Outgoing(
                self._topic,
                encode_echo(Echo(echo=number, give_up=True)),
                response_topic=self._reply_topic,
                correlation=correlation,
                expiry_s=math.ceil(FORGET_S),
            )
        )
        if status is PublishStatus.SENT:
            self.sent += 1
        else:
            self._sent_at_s.pop(correlation, None)

    def echoed(self, correlation: bytes | None, payload: bytes) -> bool:
        """Take in a reply that answers no request; whether it answers a probe.

        A worker that does not know probes refuses one as a bad request, which shows as much as an echo.
        """
        sent_at_s = self._sent_at_s.pop(correlation, None) if correlation else None
        if sent_at_s is None:
            return False
        reply = decode_reply(payload)
        if not isinstance(reply, BadPayload) and reply.refused in (None, Refusal.BAD_PAYLOAD):
            self._went(self._breaker.echoed())
        return True
