"""A session with a broker for a command: it is there within seconds, or says why not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from pipeline.errors import BrokerError
from pipeline.transport.base import Transport
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.transport.url import parse_broker_url

CONNECT_WITHIN_S = 10.0


@contextlib.asynccontextmanager
async def connected(
    broker: str | None, usual: MqttSettings, prepare: Callable[[Transport], None]
) -> AsyncIterator[Transport]:
    """A session at a broker, by its URL or by the usual settings; ``prepare`` subscribes before it runs.

    Raises ConfigError on a bad URL, BrokerError where no connection is made within 10 s.
    """
    settings = replace(usual, client_id="") if broker is None else MqttSettings.of(parse_broker_url(broker), usual.tls)
    session = MqttTransport(settings)
    prepare(session)
    running = asyncio.ensure_future(session.run())
    ready = asyncio.ensure_future(session.wait_connected())
    try:
        await asyncio.wait({running, ready}, timeout=CONNECT_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()  # raises: it ends by itself only over the TLS files
        if not ready.done():
            raise BrokerError(
                f"No connection to the broker {settings.host}:{settings.port} within {CONNECT_WITHIN_S:g} s: "
                f"{session.state.reason}; start one with 'foveate broker', or name another with --broker."
            )
        yield session
    finally:
        running.cancel()
        ready.cancel()
        await asyncio.gather(running, ready, return_exceptions=True)
