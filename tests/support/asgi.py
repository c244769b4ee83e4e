"""Calls an ASGI application without a server."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Message


@dataclass(frozen=True, slots=True)
class Answer:
    """What an application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def call(
    app: ASGIApp,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    server: tuple[str, int] = ("127.0.0.1", 8080),
) -> Answer:
    """One request; ``target`` is path and query as sent. Without a ``host`` header it names the server."""
    raw_path, _, query = target.partition("?")
    sent = {"host": f"{server[0]}:{server[1]}", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 50_000),
        "server": server,
    }
    answered: list[Message] = []
    received: list[bool] = []

    async def receive() -> Message:
        if received:
            await asyncio.Event().wait()  # the client stays and sends nothing more
        received.append(True)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        answered.append(message)

    await app(scope, receive, send)
    start = answered[0]
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(message.get("body", b"") for message in answered[1:]))
