"""Serves the status page inside the running event loop."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from edge_agent.status.access import check_binding
from pipeline.errors import BrokerError, ConfigError

_MOST_CONNECTIONS = 100
_IDLE_S = 5
_UNACKNOWLEDGED_MS = 10_000
_GRACE_S = 0.5
_BACKLOG = 128


async def serve(
    app: FastAPI,
    host: str = "127.0.0.1",
    port: int = 8080,
    listening: Callable[[int], None] | None = None,
) -> None:
    """Serve ``app`` (made by ``create_app``) until cancelled; then stop within a second, whoever is connected.

    ``listening`` is called once with the port (``port`` 0 takes a free one). Raises ConfigError on a host beyond this
    machine without a token or a host that is none, BrokerError on a port that cannot be had.
    """
    check_binding(host, app.state.access.token)
    with await _listen(host, port) as listener:
        server = _EmbeddedServer(_configuration(app))
        task = asyncio.create_task(server.serve(sockets=[listener]), name="status page")
        try:
            if listening is not None:
                listening(listener.getsockname()[1])
            await asyncio.shield(task)
        finally:
            await _stop(server, task)


async def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise ConfigError(f"the status page's port is {port}: it must be between 0 and 65535")
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the status page's host {host!r} is unknown: give an address of this machine") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: a viewer that vanished in mid answer is given up
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.settimeout(0)
    except OSError as error:
        listener.close()
        raise BrokerError(_bind_problem(host, port, error)) from error
    return listener


def _bind_problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} for the status page is in use by another program: "
            "stop that program, or choose another port"
        )
    if error.errno == errno.EACCES:
        return f"port {port} on {host} for the status page is not allowed to this user: choose a port from 1024 on"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"the status page cannot bind {host} port {port}, which is no address of this machine: choose another"
    return f"the status page cannot listen on {host} port {port} ({error.strerror}): choose another host or port"


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that leaves the process's signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _TimedProtocol(H11Protocol):
    """Closes a connection on which no whole request arrives in time; uvicorn itself would wait for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base does
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete):
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        if not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(_IDLE_S, self.timeout_keep_alive_handler)


def _configuration(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_TimedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,  # logging belongs to the program
        access_log=False,  # it would write the token of /?token=...
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_S,
    )


async def _stop(server: _EmbeddedServer, task: asyncio.Task[None]) -> None:
    server.should_exit = True
    done, _ = await asyncio.wait({task}, timeout=_GRACE_S)
    if not done:
        server.force_exit = True
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        for running in list(server.server_state.tasks):
            running.cancel()
    await task
