"""Helpers for tests of sources: orders for readers, and collecting what a source gives."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_agent.capture.address import SourceKind
from edge_agent.capture.base import Captured, CaptureEvent, Ended, StateChange, VideoSource
from edge_agent.capture.open import open_source
from edge_agent.capture.protocol import Order, Over
from edge_agent.capture.readers import Reader, Shot, Unusable
from edge_agent.capture.settings import CaptureSettings
from pipeline.results import CameraState
from pipeline.timing import MonotonicClock


def order_for(target: Path | str, kind: SourceKind = SourceKind.PATH, **changes: Any) -> Order:
    """An order as the agent would give it."""
    values: dict[str, Any] = {
        "kind": kind,
        "target": str(target),
        "realtime": False,
        "username": None,
        "password": None,
        "rtsp_transport": "tcp",
        "open_timeout_s": 5.0,
        "read_timeout_s": 5.0,
        "pixel_limit": 7680 * 4320,
        "wait_s": 0.0,
        "probe": False,
        "shared_file": -1,
    }
    return Order(**(values | changes))


def read_all(reader: Reader | Over) -> tuple[list[Shot], list[Unusable], Over]:
    """Everything that a reader gives."""
    shots: list[Shot] = []
    unusable: list[Unusable] = []
    item: Shot | Unusable | Over | Reader = reader
    while not isinstance(item, Over):
        assert not isinstance(reader, Over)
        item = reader.read()
        if isinstance(item, Shot):
            shots.append(item)
        elif isinstance(item, Unusable):
            unusable.append(item)
    if not isinstance(reader, Over):
        reader.release()
    return shots, unusable, item


def source_for(source: Path | str, **changes: Any) -> VideoSource:
    """A source on the machine's clock."""
    return open_source(CaptureSettings(str(source), **changes), MonotonicClock())


async def collect(source: VideoSource) -> list[CaptureEvent]:
    """All events of a source that ends by itself."""
    async with asyncio.timeout(30):
        return [event async for event in source.events()]


def pictures(events: list[CaptureEvent]) -> list[Captured]:
    """The pictures among events."""
    return [event for event in events if isinstance(event, Captured)]


def ending(events: list[CaptureEvent]) -> Ended:
    """The end, which must be the last event and the only one."""
    assert [event for event in events if isinstance(event, Ended)] == events[-1:]
    last = events[-1]
    assert isinstance(last, Ended)
    return last


@dataclass
class Watching:
    """What a source has given so far, gathered in the background."""

    source: VideoSource
    states: list[StateChange | Ended] = field(default_factory=list)
    pictures: list[Captured] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        async for event in self.source.events():
            if isinstance(event, Captured):
                self.pictures = [*self.pictures[-99:], event]
            else:
                self.states.append(event)
            self._news.set()

    def shown(self) -> list[CameraState]:
        return [event.state for event in self.states]

    async def until(self, reached: Callable[["Watching"], bool], within_s: float = 25.0) -> None:
        """Wait until something is true of what was gathered; fails the test after ``within_s``."""
        try:
            async with asyncio.timeout(within_s):
                while not reached(self):
                    await self._news.wait()
                    self._news.clear()
        except TimeoutError:
            raise AssertionError(f"not reached; states {self.states}, {len(self.pictures)} pictures") from None

    async def until_state(self, state: CameraState, after: int = 0) -> int:
        """Wait for a state among those from number ``after`` on; returns the number after it."""
        await self.until(lambda seen: state in seen.shown()[after:])
        return self.shown().index(state, after) + 1

    async def more_pictures(self, count: int) -> None:
        """Wait for ``count`` more pictures."""
        seen = self.pictures[-1].seq if self.pictures else -1
        await self.until(lambda now: bool(now.pictures) and now.pictures[-1].seq >= seen + count)


@contextlib.asynccontextmanager
async def watching(source: VideoSource) -> AsyncIterator[Watching]:
    """Gather a source's events for the length of the block; a fault in it fails the test."""
    seen = Watching(source)
    task = asyncio.create_task(seen.run())
    try:
        yield seen
    finally:
        await source.close()
        async with asyncio.timeout(10):
            await task
