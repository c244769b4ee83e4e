"""A session with an MQTT 5 broker that stays connected by itself."""

import asyncio
import logging
import ssl
import uuid
from collections.abc import Awaitable, Callable

from pipeline.transport.backoff import Backoff
from pipeline.transport.base import Handler, Outgoing, PublishStatus, SessionState
from pipeline.transport.dispatch import Dispatcher
from pipeline.transport.mqtt_link import Lost, MqttLink
from pipeline.transport.settings import MqttSettings
from pipeline.transport.tls import tls_context

_log = logging.getLogger(__name__)


class MqttTransport:
    """One MQTT 5 session that stays connected by itself; implements ``Transport``.

    Filters of one session should not overlap: a broker may send a copy per filter. A QoS 0 publish is handed to the
    socket's writer and waits for nothing; a QoS 1 publish waits for the broker's acknowledgement and is
    ``NOT_CONNECTED`` without one. ``backoff`` may be shared by the sessions of a process.
    """

    def __init__(self, settings: MqttSettings, will: Outgoing | None = None, backoff: Backoff | None = None) -> None:
        self._settings = settings
        self._client_id = settings.client_id or f"foveate-{uuid.uuid4().hex[:16]}"
        self._will = will
        self._backoff = backoff or Backoff()
        self._dispatcher = Dispatcher(self._client_id)
        self._births: list[Callable[[], Awaitable[None]]] = []
        self._link: MqttLink | None = None
        self._ready = asyncio.Event()
        self._connects = 0
        self._reason = "not started"
        self._running = False

    @property
    def client_id(self) -> str:
        return self._client_id

    @property
    def state(self) -> SessionState:
        connected = self._link is not None
        counted = self._dispatcher
        return SessionState(
            connected, "" if connected else self._reason, self._connects, counted.received, counted.ignored
        )

    def subscribe(self, topic_filter: str, handler: Handler, qos: int = 0) -> None:
        if self._running:
            raise RuntimeError("subscribe is called before run")
        self._dispatcher.add(topic_filter, handler, qos)

    async def unsubscribe(self, topic_filter: str) -> None:
        self._dispatcher.leave(topic_filter)
        if self._link is not None:
            await self._link.unsubscribe(topic_filter)

    def on_connect(self, birth: Callable[[], Awaitable[None]]) -> None:
        self._births.append(birth)

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        link = self._link
        if link is None:
            return PublishStatus.NOT_CONNECTED
        return await link.publish(outgoing)

    async def wait_connected(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        """Stay connected until cancelled. Raises ConfigError where the TLS files cannot be used."""
        self._running = True
        loop = asyncio.get_running_loop()
        try:
            tls = await self._tls()
            while True:
                connects, began_s = self._connects, loop.time()
                lost = await self._session(tls)
                now_s = loop.time()
                was_connected = self._connects > connects
                delay_s = self._backoff.ended(now_s, now_s - began_s if was_connected else 0.0, lost.needs_a_person)
                if was_connected or lost.reason != self._reason:  # not at every attempt of a long outage
                    _log.warning("%s: %s; next attempt in %.1f s", self._client_id, lost.reason, delay_s)
                self._reason = lost.reason
                await asyncio.sleep(delay_s)
        finally:
            self._reason = "stopped"
            self._running = False

    async def _tls(self) -> ssl.SSLContext | None:
        if self._settings.tls is None:
            return None
        return await asyncio.to_thread(tls_context, self._settings.tls, self._settings.host)

    async def _session(self, tls: ssl.SSLContext | None) -> Lost:
        """One connection, from the first packet to the last."""
        link = MqttLink(self._settings, self._client_id, self._will, tls, self._dispatcher.dispatch)
        try:
            await link.open()
            await link.subscribe([(one.topic_filter, one.qos) for one in self._dispatcher.subscriptions])
            self._connected(link)
            births = asyncio.ensure_future(self._announce())
            try:
                await link.wait_lost()
            finally:
                births.cancel()
                await asyncio.gather(births, return_exceptions=True)
        except Lost as lost:
            if self._link is not None:
                self._reason = lost.reason  # whoever sees that there is no connection sees why, also while it closes
            return lost
        finally:
            self._link = None
            self._ready.clear()
            await link.close()

    def _connected(self, link: MqttLink) -> None:
        self._link = link
        self._connects += 1
        self._reason = ""
        _log.info("%s: connected to %s:%d", self._client_id, self._settings.host, self._settings.port)

    async def _announce(self) -> None:
        for birth in self._births:
            await self._dispatcher.guard(birth)
        if self._link is not None:
            self._ready.set()
