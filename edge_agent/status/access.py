"""Who may read the status pages: known host names, one origin, and a token beyond this machine."""

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.errors import ConfigError

OPEN_PATHS = frozenset({"/healthz"})
"""What may be read without the token."""

_COOKIE_DAYS = 30
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Who may read.

    ``host``: the address that the server binds; beyond this machine it needs a token. ``token``: the secret, None for
    no secret. ``names``: further host names under which the page is reached, for example behind a proxy.
    """

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    names: tuple[str, ...] = ()


def check_binding(host: str, token: str | None) -> None:
    """Raise ConfigError where the status server would be open to others without a token."""
    if token is not None and not token.strip():
        raise ConfigError("the status page's token is empty: give it a secret, or leave it out on 127.0.0.1")
    if token is None and not _is_loopback(host):
        raise ConfigError(
            f"the status page would be open to the network on host {host!r} without a token: "
            "set a token for it, or bind it to 127.0.0.1"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class AccessGuard:
    """ASGI middleware in front of every route, so that a new one is protected without anyone thinking of it."""

    def __init__(self, app: ASGIApp, access: AccessSettings) -> None:
        self._app = app
        self._names = _LOOPBACK_NAMES | {name.lower() for name in (access.host, *access.names)}
        self._token = None if access.token is None else access.token.encode()
        # The cookie holds a value derived from the token, so that a stolen cookie jar does not give the token away;
        # its name follows from it too, so that two agents on one host do not overwrite each other's.
        self._session = "" if self._token is None else hmac.new(self._token, b"status page", hashlib.sha256).hexdigest()
        self._cookie = f"foveate_{hashlib.sha256(self._session.encode()).hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        answer = self._answer(HTTPConnection(scope))
        if answer is not None and scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_SECURITY_HEADERS)
                headers["cache-control"] = "no-cache" if scope["path"].startswith("/static/") else "no-store"
            await send(message)

        await (answer or self._app)(scope, receive, send_secured)

    def _answer(self, request: HTTPConnection) -> Response | None:
        """What to answer instead of the route's own answer: a refusal, the redirect that sets the cookie, or None."""
        host = request.headers.get("host", "")
        if not self._known(host, request):
            return PlainTextResponse(
                "This server does not answer to the host name of this request; add it to web.allowed_hosts.\n",
                421,
            )
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host.lower()}", f"https://{host.lower()}"}:
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        if self._token is None or request.url.path in OPEN_PATHS or self._has_token(request):
            return None
        if request.url.path == "/" and self._same(request.query_params.get("token", "").encode()):
            return self._let_in()
        return PlainTextResponse(
            "This page needs its access token: open /?token=... once, or send it as 'Authorization: Bearer ...'.\n",
            401,
            {"www-authenticate": "Bearer"},
        )

    def _known(self, host: str, request: HTTPConnection) -> bool:
        name = _host_name(host)
        if name in self._names:
            return True
        # The address that the client connected to is no name, so it cannot have been rebound by somebody's DNS.
        server = request.scope.get("server")
        return server is not None and name == server[0] and _is_address(name)

    def _has_token(self, request: HTTPConnection) -> bool:
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        # HTTP headers are decoded as Latin-1; the token was sent as UTF-8.
        if scheme.lower() == "bearer" and self._same(value.strip().encode("latin-1")):
            return True
        return hmac.compare_digest(request.cookies.get(self._cookie, "").encode(), self._session.encode())

    def _same(self, given: bytes) -> bool:
        return self._token is not None and hmac.compare_digest(given, self._token)

    def _let_in(self) -> Response:
        response = RedirectResponse("/", 303)
        response.set_cookie(
            self._cookie, self._session, max_age=_COOKIE_DAYS * 86_400, path="/", httponly=True, samesite="lax"
        )
        return response


def _host_name(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
