"""The embedded MQTT broker: rumqttd, from the iotcore wheel, in a process of its own.

One port speaks MQTT 5; a second one takes MQTT 3.1.1 clients and puts them on the same broker. Nothing is kept on disk.
"""

import argparse
import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from foveate.mqtt3 import Relay
from pipeline.errors import BrokerError, ConfigError
from pipeline.timing import MonotonicClock
from pipeline.wire.codec import MAX_PAYLOAD_BYTES

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 1883
DEFAULT_PORT_V3 = 1884
PACKET_BYTES = MAX_PAYLOAD_BYTES + 64 * 1024
START_TIMEOUT_S = 10.0
UNACKNOWLEDGED_MS = 15_000
"""A client whose host acknowledges nothing for so long is gone: as long as with a keep-alive of 10 s."""
CONNECTION_OPTIONS = (
    (socket.TCP_NODELAY, 1),
    *(((socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS),) if sys.platform == "linux" else ()),
)
_POLL_S = 0.02
_LISTEN_POLL_S = 0.001
_log = logging.getLogger(__name__)

# The broker keeps a log per topic filter: at most segments x (size + one packet), the oldest segment goes first, and
# a subscriber too slow for that loses its oldest messages.
_CONFIG = """\
id = 0
[router]
id = 0
max_connections = 1000
max_outgoing_packet_count = 200
max_segment_size = 2097152
max_segment_count = 4
[v5.1]
name = "v5"
listen = "{listen}"
next_connection_delay_ms = 1
[v5.1.connections]
connection_timeout_ms = 10000
max_payload_size = {packet_bytes}
max_inflight_count = 100
dynamic_filters = true
"""


class EmbeddedBroker:
    """A broker as a child process, so that its CPU time and memory can be told apart and its crash harms nobody else.

    ``port_v3``: the port of the 3.1.1 listener, none when None. The child ends when this process does, however it ends.
    """

    def __init__(
        self, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, port_v3: int | None = DEFAULT_PORT_V3
    ) -> None:
        self._host = _numeric(host)
        self._ports = (port,) if port_v3 is None else (port, port_v3)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the child while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the child and return when it takes connections; blocks. Raises BrokerError."""
        if self.pid is not None:
            return
        self.stop()  # let go of one that has ended
        check_ports(self._host, self._ports)
        command = [sys.executable, "-m", "foveate.broker", "--host", self._host, "--port", str(self._ports[0])]
        if len(self._ports) > 1:
            command += ["--port-v3", str(self._ports[1])]
        environment = {**os.environ, "RUST_BACKTRACE": "0"}
        # A group of its own: Ctrl+C reaches the whole group, and the goodbyes still need the broker.
        process = self._process = subprocess.Popen(
            [*command, "--with-parent"], stdin=subprocess.PIPE, env=environment, process_group=0
        )
        try:
            self._wait_ready(process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the child; blocks for a moment. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def __enter__(self) -> "EmbeddedBroker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        clock = MonotonicClock()
        give_up_at_s = clock.now_s() + START_TIMEOUT_S
        for port in self._ports:
            while not _answers(self._host, port):
                if process.poll() is not None:
                    raise BrokerError(
                        f"The embedded broker on {self._host}:{port} ended with code {process.returncode} while it"
                        " started; its own messages stand above, or name another broker with --broker."
                    )
                if clock.now_s() > give_up_at_s:
                    raise BrokerError(
                        f"The embedded broker did not answer on {self._host}:{port} within {START_TIMEOUT_S:.0f} s;"
                        " name another broker with --broker."
                    )
                # A process that is just starting sends no event to wait for.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_S)


def run_broker(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, port_v3: int | None = DEFAULT_PORT_V3) -> None:
    """Run a broker in this process until SIGINT or SIGTERM; for the command. Raises BrokerError and ConfigError."""
    host = _numeric(host)
    check_ports(host, (port,) if port_v3 is None else (port, port_v3))
    asyncio.run(_serve(host, port, port_v3, with_parent=False))


def check_ports(host: str, ports: tuple[int, ...]) -> None:
    """See that the ports can be listened on. Raises BrokerError naming the one that cannot."""
    if len(set(ports)) < len(ports):
        raise ConfigError(f"The broker needs two different ports, both are {ports[0]}; choose another --port-v3.")
    for port in ports:
        if not 1 <= port <= 65_535:
            raise ConfigError(f"The broker's port is {port}, must be 1 to 65535; choose another --port.")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise BrokerError(
                    f"The broker cannot listen on {host}:{port}: {error.strerror}; stop what uses port {port}, choose"
                    " another with --port, or name a broker that runs already with --broker."
                ) from error


def main() -> None:
    """Entry point of the child process."""
    parser = argparse.ArgumentParser(prog="python -m foveate.broker")
    parser.add_argument("--host", default=DEFAULT_HOST)
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    parser.add_argument("--port-v3", type=int, default=None)
    parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_serve(options.host, options.port, options.port_v3, with_parent=options.with_parent))


async def _serve(host: str, port: int, port_v3: int | None, *, with_parent: bool) -> None:
    from iotcore import IotCoreBroker  # the native library is loaded only where the broker runs

    # Its log calls every packet an error.
    logging.getLogger("rumqttd").setLevel(logging.CRITICAL)
    address = f"[{host}]" if ":" in host else host
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "broker.toml"
        config.write_text(_CONFIG.format(listen=f"{address}:{port}", packet_bytes=PACKET_BYTES), encoding="utf-8")
        IotCoreBroker(config_path=str(config)).start()
        for _ in range(round(START_TIMEOUT_S / _LISTEN_POLL_S)):
            if prepare_connections(port):
                break
            await asyncio.sleep(_LISTEN_POLL_S)  # it listens in a thread of its own, a moment later
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    if with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    server = None
    if port_v3 is not None:
        relay = Relay(_reachable(host), port, PACKET_BYTES)
        server = await asyncio.start_server(relay.serve, host, port_v3)
    await stopped.wait()
    if server is not None:
        server.close()
    # rumqttd has no way to stop; its threads end with the process.
    sys.stdout.flush()
    os._exit(0)


def prepare_connections(port: int) -> bool:
    """Set TCP_NODELAY and, where there is one, TCP_USER_TIMEOUT on what this process listens with on a port; False
    where it does not listen.

    Connections to come inherit them, and rumqttd sets neither. Without the first a message to a client that sends, too,
    as a worker does, waits up to 40 ms for the acknowledgement of the one before (Nagle's algorithm meets delayed
    acknowledgements). Without the second a client whose host has lost its power keeps its share of requests for many
    minutes: rumqttd begins its count of the keep-alive anew with each message to a client.
    """
    found = False
    for entry in Path("/dev/fd").iterdir():
        try:
            if not stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode):
                continue
            listener = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:  # closed meanwhile
            continue
        with listener:
            if listener.family not in (socket.AF_INET, socket.AF_INET6) or listener.getsockname()[1] != port:
                continue
            if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                for option, value in CONNECTION_OPTIONS:
                    listener.setsockopt(socket.IPPROTO_TCP, option, value)
                found = True
    return found


def _end_with_parent() -> None:
    """Wait for the pipe from the parent to close, which it does however the parent ends."""
    with contextlib.suppress(OSError):
        sys.stdin.buffer.read()
    os._exit(0)


def _numeric(host: str) -> str:
    if host == "localhost":
        return DEFAULT_HOST
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        raise ConfigError(
            f"The broker's host {host!r} is not an IP address; write 127.0.0.1 for this machine alone, 0.0.0.0 for all."
        ) from None


def _reachable(host: str) -> str:
    """The address under which a listener on ``host`` is reached from this machine."""
    return {"0.0.0.0": DEFAULT_HOST, "::": "::1"}.get(host, host)


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((_reachable(host), port), timeout=0.5):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
