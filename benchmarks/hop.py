"""Measure one round trip over MQTT on loopback: a 60 kB request, a 200 byte reply, one at a time, QoS 0.

    python benchmarks/hop.py [--count 500] [--mosquitto /usr/sbin/mosquitto]

Prints P50 and P99 in milliseconds for the embedded broker and, where it is installed, for mosquitto.
"""

import argparse
import asyncio
import contextlib
import shutil
import socket
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from foveate.broker import EmbeddedBroker
from pipeline.timing import MonotonicClock
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings

HOST = "127.0.0.1"
REQUEST_BYTES = 60_000
REPLY_BYTES = 200
WARM_UP = 50


async def round_trips_ms(port: int, count: int) -> list[float]:
    """Round trip times in milliseconds through the broker on a port, requester and responder in this process."""
    clock = MonotonicClock()
    client, server = MqttTransport(MqttSettings(HOST, port)), MqttTransport(MqttSettings(HOST, port))
    answered = asyncio.Event()
    replies: set[asyncio.Task[object]] = set()

    def serve(message: Message) -> None:
        if message.response_topic is not None:
            reply = Outgoing(message.response_topic, bytes(REPLY_BYTES), correlation=message.correlation)
            task: asyncio.Task[object] = asyncio.ensure_future(server.publish(reply))
            replies.add(task)
            task.add_done_callback(replies.discard)

    client.subscribe("hop/reply", lambda _: answered.set())
    server.subscribe("$share/workers/hop/request", serve)
    runs = [asyncio.ensure_future(session.run()) for session in (client, server)]
    await asyncio.gather(client.wait_connected(), server.wait_connected())
    times_ms = []
    payload = bytes(REQUEST_BYTES)
    for number in range(WARM_UP + count):
        answered.clear()
        began_s = clock.now_s()
        correlation = number.to_bytes(4, "big")
        await client.publish(
            Outgoing("hop/request", payload, response_topic="hop/reply", correlation=correlation, expiry_s=1)
        )
        async with asyncio.timeout(5):
            await answered.wait()
        times_ms.append((clock.now_s() - began_s) * 1000)
    for run in runs:
        run.cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    return times_ms[WARM_UP:]


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def embedded() -> Iterator[int]:
    """The port of an embedded broker."""
    port = free_port()
    with EmbeddedBroker(HOST, port, None):
        yield port


@contextlib.contextmanager
def mosquitto(program: str) -> Iterator[int]:
    """The port of a mosquitto with the options of deploy/mosquitto/mosquitto.conf that matter here."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        config = Path(folder) / "mosquitto.conf"
        config.write_text(f"listener {port} {HOST}\nallow_anonymous true\nset_tcp_nodelay true\n", encoding="utf-8")
        process = subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL)
        try:
            yield port  # the session's own back-off waits for the broker to listen
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--mosquitto", default=shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin"))
    options = parser.parse_args()
    brokers = {"embedded": embedded()}
    if options.mosquitto:
        brokers["mosquitto"] = mosquitto(options.mosquitto)
    print(f"{REQUEST_BYTES} byte request, {REPLY_BYTES} byte reply, QoS 0, one at a time, {options.count} round trips")
    for name, broker in brokers.items():
        with broker as port:
            times_ms = asyncio.run(round_trips_ms(port, options.count))
        cuts = statistics.quantiles(times_ms, n=100)
        print(f"{name:10} P50 {statistics.median(times_ms):6.2f} ms   P99 {cuts[98]:6.2f} ms")


if __name__ == "__main__":
    main()
