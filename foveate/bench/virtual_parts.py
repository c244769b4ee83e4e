"""What stands in for the world of a virtual run: a camera, threads that take measured time, counted sessions."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Any, TypeVar

from edge_agent.capture.base import Captured, CaptureEvent, Ended, StateChange
from edge_agent.publish import RecordWriter
from foveate.bench.playlist import Playlist, shown
from foveate.bench.service_times import ServiceTimes
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.frames import Image
from pipeline.results import CameraState, Result
from pipeline.transport.base import Outgoing, PublishStatus, Transport

T = TypeVar("T")
SOCKET_OVERHEAD = 40 / 1460
"""TCP and IP headers per byte of payload."""
PUBLISH_OVERHEAD_BYTES = 120
"""Of one request's MQTT packet beyond its payload: topics, correlation data, trace."""


class Remembering:
    """A detector that never looks at the same picture twice."""

    def __init__(self, inner: Detector) -> None:
        self._inner = inner
        self._known: dict[tuple[bytes, float], Detections] = {}
        self.name, self.version, self.labels = inner.name, inner.version, inner.labels

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        return [self._one(image, min_score) for image in images]

    def _one(self, image: Image, min_score: float) -> Detections:
        key = hashlib.blake2b(image.tobytes(), digest_size=16).digest(), min_score
        if key not in self._known:
            self._known[key] = self._inner.detect([image], min_score)[0]
        return self._known[key]


class Timed:
    """A worker's model whose runs know how long they would have taken."""

    def __init__(self, inner: Detector, times: ServiceTimes, rng: Random) -> None:
        self._inner, self._times, self._rng = inner, times, rng
        self.name, self.version, self.labels = inner.name, inner.version, inner.labels
        self.last_s = 0.0

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        self.last_s = sum(self._times.cloud_s(image.shape[0] * image.shape[1], self._rng) for image in images)
        return self._inner.detect(images, min_score)


class Slots:
    """A pool of virtual threads: a call is instant, then its thread is taken for as long as it would have needed."""

    def __init__(self, slots: int, duration_s: Callable[[Any], float]) -> None:
        self._free, self._duration_s = asyncio.Semaphore(slots), duration_s

    async def run(self, call: Callable[[], T]) -> T:
        async with self._free:
            result = call()
            await asyncio.sleep(self._duration_s(result))
            return result

    def close(self) -> None:
        """Nothing is held."""


class Show:
    """A camera that shows a playlist in real time."""

    def __init__(self, playlist: Playlist) -> None:
        self._playlist = playlist
        self.live, self.stills = True, False
        self.total_frames: int | None = None
        self.process_ids: tuple[int, ...] = ()
        self.captured_s: dict[int, float] = {}

    async def events(self) -> AsyncIterator[CaptureEvent]:
        loop = asyncio.get_running_loop()
        first_s = loop.time()
        yield StateChange(CameraState.LIVE, "pictures arrive")
        for seq, (at_s, image) in enumerate(shown(self._playlist)):
            await asyncio.sleep(max(0.0, first_s + at_s - loop.time()))
            self.captured_s[seq] = first_s + at_s
            image.setflags(write=False)
            yield Captured(image, seq, first_s + at_s, at_s * 1000)
        yield Ended(CameraState.FINISHED, "the playlist is over")

    async def close(self) -> None:
        """Nothing is held."""


class Kept(RecordWriter):
    """Keeps results in memory."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.results: list[Result] = []

    def add(self, result: Result) -> None:
        self.results.append(result)

    async def run(self) -> None:
        await asyncio.Event().wait()


class Counted:
    """A session that counts what it sends."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.sent: list[tuple[float, int]] = []
        self.subscribe, self.on_connect, self.run = inner.subscribe, inner.on_connect, inner.run
        self.wait_connected, self.unsubscribe = inner.wait_connected, inner.unsubscribe

    @property
    def state(self) -> Any:
        return self._inner.state

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        status = await self._inner.publish(outgoing)
        if status is PublishStatus.SENT:
            size_bytes = round((len(outgoing.payload) + PUBLISH_OVERHEAD_BYTES) * (1 + SOCKET_OVERHEAD))
            self.sent.append((asyncio.get_running_loop().time(), size_bytes))
        return status

    @property
    def sent_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self.sent)
