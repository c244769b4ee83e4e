"""The network shaper: a relay in a process of its own that makes the way to the broker like a modelled network."""

import contextlib
import socket
import subprocess
import sys
from dataclasses import replace

import msgspec

from foveate.plan import NetworkSettings
from foveate.shaper_child import ShaperOrder
from pipeline.errors import BrokerError
from pipeline.transport.settings import MqttSettings

HOST = "127.0.0.1"
_WAITING_CONNECTIONS = 64


class NetworkShaper:
    """The relay as a child process. Its listening socket is held here, so that its port survives it.

    The order goes in as one line of JSON on standard input; when that closes the child ends, so it never outlives this
    process.
    """

    def __init__(self, network: NetworkSettings, mqtt: MqttSettings) -> None:
        self._mqtt = mqtt
        self._order = ShaperOrder(network.profile, network.seed, mqtt.host, mqtt.port)
        self._listener: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the child; connections are taken from now on. Raises BrokerError."""
        self._end()  # let go of one that has ended
        if self._listener is None:
            self._listener = _listen()
        number = self._listener.fileno()
        # A group of its own: Ctrl+C reaches the whole group, and the goodbyes still need the way to the broker.
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", "foveate.shaper_child", str(number)],
            stdin=subprocess.PIPE,
            pass_fds=(number,),
            process_group=0,
        )
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # its own words say why it has ended
                process.stdin.write(msgspec.json.encode(self._order) + b"\n")
                process.stdin.flush()

    def stop(self) -> None:
        """End the child and give the port back. May be called twice."""
        self._end()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def settings(self) -> MqttSettings:
        """How the broker is reached through the relay, once it has started. TLS expects the broker's own name."""
        if self._listener is None:
            raise RuntimeError("the network shaper has no address before it has started")
        tls = self._mqtt.tls
        if tls is not None:
            tls = replace(tls, server_name=tls.server_name or self._mqtt.host)
        return replace(self._mqtt, host=HOST, port=self._listener.getsockname()[1], tls=tls)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it holds nothing that a goodbye could save
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # an order that it never read
                process.stdin.close()


def _listen() -> socket.socket:
    try:
        return socket.create_server((HOST, 0), backlog=_WAITING_CONNECTIONS)
    except OSError as error:
        raise BrokerError(
            f"The network shaper cannot listen on {HOST}: {error.strerror}; free a port, or run without --network."
        ) from error
