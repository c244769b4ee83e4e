"""The status page on a free port, and Chromium to look at it with."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

from edge_agent.status.access import AccessSettings
from edge_agent.status.app import create_app
from edge_agent.status.server import serve
from edge_agent.status.snapshot import StatusSource

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextlib.asynccontextmanager
async def serving(source: StatusSource, access: AccessSettings | None = None, port: int = 0) -> AsyncIterator[int]:
    """The status page of ``source`` on 127.0.0.1; gives the port."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    app = create_app(source, access or AccessSettings())
    task = asyncio.create_task(serve(app, "127.0.0.1", port, listening=bound.set_result))
    either: set[asyncio.Future[Any]] = {task, bound}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    try:
        yield bound.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def browsing(executable: str) -> AsyncIterator[Browser]:
    """A headless Chromium."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


class Witness:
    """Notes what a page asks for and what goes wrong on it."""

    def __init__(self, page: Page) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
