"""Results, states and counts out to MQTT, the record file and whoever looks. A dead broker never holds a frame up."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import msgspec

from pipeline.channels import Channel, Overflow
from pipeline.results import CameraState, Result, encode_result
from pipeline.timing import rfc3339
from pipeline.transport.base import Outgoing, PublishStatus, Transport
from pipeline.wire import topics

_log = logging.getLogger(__name__)
RECORD_CAPACITY_LINES = 20_000


class StateMessage(msgspec.Struct, frozen=True):
    """Body of ``foveate/{camera}/state``."""

    state: str
    reason: str
    since: str


class Publisher:
    """Publishes for all cameras of an agent.

    Results and counts go out at once (QoS 0). States and availability (QoS 1, retained) are sent by ``run``, the newest
    per topic, and again on every connect.
    """

    def __init__(self, agent: str, transport: Transport) -> None:
        self._transport = transport
        self._available = topics.available(agent)
        self._states: dict[str, bytes] = {self._available: b"online"}
        self._counts: dict[tuple[str, str], int] = {}
        self._waiting: Channel[str] = Channel("states", 1024, Overflow.DROP_OLDEST)
        self.counters: Counter[str] = Counter()
        transport.on_connect(self._birth)

    @staticmethod
    def will(agent: str) -> Outgoing:
        """What the broker says for an agent that is gone."""
        return Outgoing(topics.available(agent), b"offline", qos=1, retain=True)

    async def result(self, result: Result) -> None:
        """Publish one result and the counts that it changes."""
        status = await self._transport.publish(Outgoing(topics.result(result.camera), encode_result(result)))
        self.counters[status.value] += 1
        counts = Counter(found.label for found in result.detections)
        known = {label for camera, label in self._counts if camera == result.camera}
        for label in sorted(known | set(counts)):
            if self._counts.get((result.camera, label)) != counts[label]:
                self._counts[result.camera, label] = counts[label]
                await self._count(result.camera, label, counts[label])

    async def _count(self, camera: str, label: str, count: int) -> PublishStatus:
        return await self._transport.publish(Outgoing(topics.count(camera, label), str(count).encode(), retain=True))

    async def state(self, camera: str, state: CameraState, reason: str, since: datetime) -> None:
        """Publish a camera's state."""
        topic = topics.state(camera)
        self._states[topic] = msgspec.json.encode(StateMessage(state.value, reason, rfc3339(since)))
        await self._waiting.send(topic)

    async def _birth(self) -> None:
        for topic in list(self._states):
            await self._waiting.send(topic)
        for (camera, label), count in list(self._counts.items()):
            await self._count(camera, label, count)

    async def run(self) -> None:
        """Send states until cancelled."""
        while True:
            topic = await self._waiting.receive()
            await self._transport.publish(Outgoing(topic, self._states[topic], qos=1, retain=True))

    async def goodbye(self) -> None:
        """Say that the agent stops on purpose."""
        await self._transport.publish(Outgoing(self._available, b"offline", qos=1, retain=True))


class RecordWriter:
    """Writes results to a file, one JSON per line, away from the event loop.

    ``write_lines`` appends text and may block; it is called on a thread. Lines beyond the bound, and those that the
    disk does not take, are counted in ``lost``; ``fault`` is the newest reason.
    """

    def __init__(self, write_lines: Callable[[bytes], object]) -> None:
        self._write_lines = write_lines
        self._lines: list[bytes] = []
        self.lost = 0
        self.fault = ""

    def add(self, result: Result) -> None:
        """Take one result in."""
        if len(self._lines) >= RECORD_CAPACITY_LINES:
            self.lost += 1
            return
        self._lines.append(encode_result(result))

    async def run(self) -> None:
        """Write twice a second until cancelled, then write the rest."""
        try:
            while True:
                await asyncio.sleep(0.5)
                await self.flush()
        finally:
            await self.flush()

    async def flush(self) -> None:
        """Write what is there. When cancelled it first ends the write that has begun, so that lines stay in order."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        write = asyncio.ensure_future(asyncio.to_thread(self._write, lines))
        try:
            await asyncio.shield(write)
        except asyncio.CancelledError:
            await write
            raise

    def _write(self, lines: list[bytes]) -> None:
        try:
            self._write_lines(b"\n".join(lines) + b"\n")
        except OSError as error:
            self.lost += len(lines)
            if not self.fault:
                _log.error("the record cannot be written, results are being lost: %s", error.strerror or error)
            self.fault = error.strerror or str(error)
