"""One snapshot and one picture per camera for all viewers, so that viewers cost the pipeline nothing."""

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from edge_agent.status.snapshot import AgentStatus, StatusSource
from pipeline.timing import Clock

SNAPSHOT_AGE_S = 0.25
PICTURE_AGE_S = 0.2
MOST_POINTS = 240


@dataclass(frozen=True, slots=True)
class Picture:
    """A JPEG with its entity tag."""

    seq: int
    jpeg: bytes
    etag: str


class SnapshotCache:
    """Asks the source at most 4 times a second for the status and 5 times a second for each camera's picture."""

    def __init__(self, source: StatusSource, clock: Clock, render_metrics: Callable[[AgentStatus], bytes]) -> None:
        self._source = source
        self._clock = clock
        self._render_metrics = render_metrics
        self._status: AgentStatus | None = None
        self._taken_at_s = 0.0
        self._json: bytes | None = None
        self._metrics: bytes | None = None
        self._rendering, self._drawing = asyncio.Lock(), asyncio.Lock()
        self._pictures: dict[str, tuple[float, Picture | None]] = {}

    def status(self) -> AgentStatus:
        """The present snapshot."""
        now_s = self._clock.now_s()
        if self._status is None or now_s - self._taken_at_s >= SNAPSHOT_AGE_S:
            self._status, self._taken_at_s = self._source.status(), now_s
            self._json = self._metrics = None
            names = {camera.name for camera in self._status.cameras}
            self._pictures = {name: held for name, held in self._pictures.items() if name in names}
        return self._status

    def status_json(self) -> bytes:
        """The present snapshot as JSON."""
        status = self.status()
        if self._json is None:
            self._json = msgspec.json.encode(status)
        return self._json

    async def metrics(self) -> bytes:
        """The present snapshot as Prometheus text, written in a thread: with many cameras it takes milliseconds."""
        async with self._rendering:
            status = self.status()
            if self._metrics is not None:
                return self._metrics
            text = await asyncio.to_thread(self._render_metrics, status)
            if self._status is status:
                self._metrics = text
            return text

    def learning_curve(self, camera: str) -> bytes:
        """How a camera's learning has gone, as JSON, thinned to what a page can show; the newest point is its last."""
        points = self._source.learning_curve(camera)
        step = -(-len(points) // MOST_POINTS) or 1
        return msgspec.json.encode(list(points[::-1][::step])[::-1])

    async def picture(self, camera: str) -> Picture | None:
        """The newest picture of a camera that the present snapshot names, drawn in a thread, one at a time."""
        async with self._drawing:
            now_s = self._clock.now_s()
            held = self._pictures.get(camera)
            if held is None or now_s - held[0] >= PICTURE_AGE_S:
                held = now_s, await asyncio.to_thread(self._newest, camera)
                self._pictures[camera] = held
            return held[1]

    def _newest(self, camera: str) -> Picture | None:
        found = self._source.picture(camera)
        if found is None:
            return None
        seq, jpeg = found
        # Numbers start again with the agent, so the number alone does not tell two pictures apart.
        return Picture(seq, jpeg, f'"{seq}-{zlib.crc32(jpeg):08x}"')
