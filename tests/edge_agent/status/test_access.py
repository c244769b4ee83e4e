import base64
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Message

from edge_agent.status.access import OPEN_PATHS, AccessSettings, check_binding
from edge_agent.status.app import create_app
from pipeline.errors import ConfigError
from tests.support.asgi import call
from tests.support.status_samples import FakeStatusSource

TOKEN = "S3cr&t/Ü"
BEARER = {"authorization": f"Bearer {TOKEN}"}


def guarded(token: str | None = TOKEN, host: str = "127.0.0.1", names: tuple[str, ...] = ()) -> FastAPI:
    source = FakeStatusSource()
    source.show("plaza", 41)
    return create_app(source, AccessSettings(host, token, names))


def targets(route: BaseRoute) -> Iterator[tuple[str, set[str]]]:
    """Paths and methods of a route; one that this does not know fails the test that asks."""
    if isinstance(route, Mount):
        yield f"{route.path}/app.js", {"GET"}
    else:
        assert isinstance(route, Route), f"{route!r} is of a kind that this test does not know"
        yield route.path.replace("{name}", "plaza"), set(route.methods or ())


def all_targets(app: FastAPI) -> list[tuple[str, set[str]]]:
    found = [target for route in app.routes for target in targets(route)]
    assert len(found) >= 7
    return found


async def test_every_route_but_health_wants_the_token() -> None:
    app = guarded()
    for path, methods in all_targets(app):
        for method in methods:
            without, with_token = await call(app, path, method), await call(app, path, method, BEARER)
            assert with_token.status == 200, path
            assert without.status == (200 if path == "/healthz" else 401), path
    assert {"/healthz"} == OPEN_PATHS


async def test_no_route_changes_anything() -> None:
    app = guarded()
    for path, methods in all_targets(app):
        assert methods <= {"GET", "HEAD"}, f"{path} must refuse foreign origins and other content than JSON"
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            form = {**BEARER, "content-type": "application/x-www-form-urlencoded"}
            assert (await call(app, path, method, form)).status == 405, path


async def test_every_route_refuses_an_unknown_host_and_a_foreign_origin() -> None:
    app = guarded()
    for path, _ in all_targets(app):
        assert (await call(app, path, headers={**BEARER, "host": "evil.example:8080"})).status == 421, path
        for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1:8080.evil.example"):
            assert (await call(app, path, headers={**BEARER, "origin": origin})).status == 403, path
        assert (await call(app, path, headers={**BEARER, "origin": "http://127.0.0.1:8080"})).status == 200, path


async def test_a_route_added_later_is_protected_without_further_thought() -> None:
    app = guarded()
    app.add_api_route("/api/new", lambda: "data", response_model=None)
    assert (await call(app, "/api/new")).status == 401
    assert (await call(app, "/api/new", headers=BEARER)).status == 200


async def test_every_answer_carries_the_security_headers_and_none_opens_it_to_other_sites() -> None:
    app = guarded()
    targets_and_headers = [(path, headers) for path, _ in all_targets(app) for headers in ({}, BEARER)]
    for path, headers in [*targets_and_headers, ("/nothing", BEARER), ("/", {"host": "evil.example"})]:
        answer = await call(app, path, headers=headers)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "localhost.", "cam.lan:80"],
)
async def test_known_host_names_are_answered(host: str) -> None:
    assert (await call(guarded(None, names=("Cam.LAN",)), "/api/status", headers={"host": host})).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:127",
        "[evil.example]",
        "192.0.2.9",
    ],
)
async def test_other_host_names_are_refused(host: str) -> None:
    assert (await call(guarded(None), "/api/status", headers={"host": host})).status == 421


async def test_the_address_that_was_connected_to_is_answered_on_every_interface() -> None:
    app = guarded(host="0.0.0.0")
    server = ("192.0.2.9", 8080)
    assert (await call(app, "/api/status", headers=BEARER, server=server)).status == 200
    assert (await call(app, "/api/status", headers={**BEARER, "host": "192.0.2.10"}, server=server)).status == 421
    assert (await call(app, "/api/status", headers={**BEARER, "host": "rebound.example"}, server=server)).status == 421


async def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address() -> None:
    app = guarded()
    entered = await call(app, f"/?token={quote(TOKEN, safe='')}")
    assert (entered.status, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    pair = cookie.partition(";")[0]
    for path, _ in all_targets(app):
        assert (await call(app, path, headers={"cookie": f"other=1; {pair}"})).status == 200, path


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer "},
        {"authorization": TOKEN},
        {"authorization": f"Basic {base64.b64encode(TOKEN.encode()).decode()}"},
        {"cookie": f"foveate={TOKEN}"},
        {"cookie": "foveate_00000000="},
        {"cookie": "\x7f;;=;"},
    ],
)
async def test_a_wrong_token_is_refused(headers: dict[str, str]) -> None:
    assert (await call(guarded(), "/api/status", headers=headers)).status == 401


@pytest.mark.parametrize("target", ["/?token=", "/?token=wrong", "/?token", "/api/status?token=S3cr%26t%2F%C3%9C"])
async def test_only_the_right_token_on_the_page_itself_lets_in(target: str) -> None:
    answer = await call(guarded(), target)
    assert (answer.status, answer.headers.get("set-cookie")) == (401, None)


async def test_a_cookie_of_another_token_is_refused() -> None:
    entered = await call(guarded("one"), "/?token=one")
    pair = entered.headers["set-cookie"].partition(";")[0]
    assert (await call(guarded("two"), "/api/status", headers={"cookie": pair})).status == 401


async def test_the_token_is_in_no_answer_and_in_no_representation() -> None:
    app = guarded()
    forms = [TOKEN, quote(TOKEN, safe=""), quote(TOKEN), base64.b64encode(TOKEN.encode()).decode()]
    seen = [repr(AccessSettings(token=TOKEN))]
    for path in [*(path for path, _ in all_targets(app)), "/nothing", f"/?token={quote(TOKEN, safe='')}"]:
        for headers in ({}, BEARER):
            answer = await call(app, path, headers=headers)
            seen += [answer.body.decode(errors="replace"), *answer.headers.values()]
    assert not [(form, text) for form in forms for text in seen if form in text]


async def test_a_websocket_is_refused_like_a_request() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/api/status",
        "query_string": b"",
        "scheme": "ws",
        "server": ("127.0.0.1", 8080),
        "headers": [(b"host", b"127.0.0.1:8080"), (b"origin", b"http://evil.example")],
    }
    await guarded()(scope, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.9", "cam.lan", ""])
def test_beyond_this_machine_a_token_is_needed(host: str) -> None:
    with pytest.raises(ConfigError, match="without a token: set a token"):
        create_app(FakeStatusSource(), AccessSettings(host))
    assert create_app(FakeStatusSource(), AccessSettings(host, TOKEN))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LocalHost"])
def test_on_this_machine_no_token_is_needed(host: str) -> None:
    assert create_app(FakeStatusSource(), AccessSettings(host))


@pytest.mark.parametrize("token", ["", "  "])
def test_an_empty_token_is_refused_wherever_it_is_used(token: str) -> None:
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(ConfigError, match="token is empty"):
            check_binding(host, token)
