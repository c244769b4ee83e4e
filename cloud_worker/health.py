"""What whoever runs a worker may ask it over HTTP: does it live, is it ready, and its figures for Prometheus."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.process_collector import ProcessCollector

from cloud_worker.metrics import WorkerCollector
from pipeline.errors import ConfigError
from pipeline.wire.messages import WorkerState

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

T = TypeVar("T")
ANSWER_WITHIN_S = 2.0
"""What the event loop does not answer within this fails, which says as much."""
CLIENT_LIMIT_S = 10.0
"""A client that says or takes nothing for so long is left."""


@dataclass(frozen=True, slots=True)
class Health:
    """What is asked of a worker; both are called on the event loop. ``state`` is None while there is nothing to tell.

    ``fault`` says in words why nobody should count on the worker now, and is empty while it serves.
    """

    state: Callable[[], WorkerState | None]
    fault: Callable[[], str]


@contextmanager
def health_served(health: Health, host: str, port: int | None) -> Iterator[None]:
    """Serve ``/healthz``, ``/readyz`` and ``/metrics`` while the block runs; without a port, nothing.

    To be entered on the event loop; it is served on threads, so that a loop that hangs is told of. Raises ConfigError
    where the port is taken.
    """
    if port is None:
        yield
        return
    kind = _Server6 if ":" in host else _Server
    try:
        server = make_server(host, port, _Pages(health, asyncio.get_running_loop()), kind, _Handler)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"worker: metrics cannot be served on {host}:{port} ({reason}); take another port") from error
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield
    finally:
        threading.Thread(target=_close, args=(server,), name="health", daemon=True).start()  # it waits for the server


class _Pages:
    """The WSGI application: what it answers comes from the event loop, and it runs on threads."""

    def __init__(self, health: Health, loop: asyncio.AbstractEventLoop) -> None:
        self._health = health
        self._loop = loop
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(WorkerCollector(lambda: self._on_loop(health.state)))
        self._metrics = make_wsgi_app(registry)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return _told(start_response, "405 Method Not Allowed", "GET and HEAD are answered")
        try:
            return self._page(environ, start_response)
        except TimeoutError:
            late = f"the event loop has not answered within {ANSWER_WITHIN_S:g} s"
            return _told(start_response, "503 Service Unavailable", late)

    def _page(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            page: Iterable[bytes] = self._metrics(environ, start_response)
            return page
        if path == "/healthz":
            self._on_loop(lambda: None)
            return _told(start_response, "200 OK", "alive")
        if path == "/readyz":
            fault = self._on_loop(self._health.fault)
            return _told(start_response, "503 Service Unavailable" if fault else "200 OK", fault or "ready")
        return _told(start_response, "404 Not Found", "there are /healthz, /readyz and /metrics")

    def _on_loop(self, call: Callable[[], T]) -> T:
        """What a call on the event loop returns. Raises TimeoutError where the loop does not turn."""
        asked = _call(call)
        try:
            return asyncio.run_coroutine_threadsafe(asked, self._loop).result(ANSWER_WITHIN_S)
        except (RuntimeError, CancelledError):  # the loop is closed, or about to be: the worker ends at this moment
            asked.close()
            raise TimeoutError from None


async def _call(call: Callable[[], T]) -> T:
    return call()


def _told(start_response: "StartResponse", status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
    return [f"{text}\n".encode()]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_LIMIT_S

    def log_message(self, *_args: object) -> None:
        """Probes come every few seconds; a line for each would hide the others."""


def _close(server: WSGIServer) -> None:
    server.shutdown()
    server.server_close()
