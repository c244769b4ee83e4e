"""Health checks of the container images: ``healthcheck.py edge|worker CONFIGURATION``; exit code 0 or 1.

An edge is healthy while its status page says that it is ready. A worker is healthy while the broker has it announced as
online. That ends with its will when its process or its connection is gone, with its own goodbye when its model hangs,
and where the broker honours message expiry three heartbeats after the last one, whatever the cause.
"""

import asyncio
import http.client
import json
import os
import sys
from pathlib import Path

from foveate.config.load import load
from foveate.config.models import Configuration
from foveate.config.settings import mqtt_settings, web_settings, worker_settings
from pipeline.errors import FoveateError
from pipeline.transport.base import Message
from pipeline.transport.mqtt import MqttTransport
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_worker_state

LIMIT_S = 5.0


def edge_fault(configuration: Configuration) -> str:
    """Why the edge agent on this machine is not ready; empty when it is."""
    web = web_settings(configuration)
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=LIMIT_S)
    headers = {} if web.access.token is None else {"Authorization": f"Bearer {web.access.token}"}
    try:
        connection.request("GET", "/readyz", headers=headers)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        return f"the status page on port {web.port} does not answer: {error}"
    finally:
        connection.close()
    if response.status == http.client.OK:
        return ""
    try:
        return str(json.loads(body)["reason"])
    except (ValueError, TypeError, KeyError):
        return f"the status page answers {response.status}"


async def worker_fault(configuration: Configuration) -> str:
    """Why the worker of this configuration is not in service; empty when it is. Its name must be configured."""
    if configuration.worker.name is None:
        return "worker.name is not set in the configuration, so the worker cannot be told from others"
    name = worker_settings(configuration).worker
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def hear(message: Message) -> None:
        if not heard.done():
            heard.set_result(message.payload)

    session = MqttTransport(mqtt_settings(configuration))
    session.subscribe(topics.worker(name), hear)
    running = asyncio.ensure_future(session.run())
    try:
        await asyncio.wait({running, heard}, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        if not heard.done():
            return f"worker {name} has not announced itself: {session.state.reason or 'the broker knows nothing of it'}"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    state = decode_worker_state(heard.result())
    if isinstance(state, BadPayload):
        return f"the announcement of worker {name} cannot be read: {state.reason}"
    return "" if state.online else f"worker {name} is announced as offline"


def main(role: str, path: str) -> str:
    """The fault of one role under a configuration file; empty when there is none."""
    try:
        configuration = load(Path(path), os.environ)
        return edge_fault(configuration) if role == "edge" else asyncio.run(worker_fault(configuration))
    except FoveateError as error:
        return str(error)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in {"edge", "worker"}:
        sys.exit("usage: healthcheck.py edge|worker CONFIGURATION")
    sys.exit(main(sys.argv[1], sys.argv[2]) or None)
