"""Results, states and counts out to MQTT, the record file and whoever looks. A dead broker never holds a frame up."""

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import datetime
from io import FileIO

import msgspec

from pipeline.alerts import AnyAlert, encode_alert
from pipeline.results import CameraState, Result, encode_result
from pipeline.timing import rfc3339, wall_time
from pipeline.transport.base import Outgoing, PublishStatus, Transport
from pipeline.wire import topics

_log = logging.getLogger(__name__)
RETRY_S = 1.0
BACKLOG_BYTES = 64 * 1024
"""What may wait on the session of results: more would be old, and in the way of what is fresh after an outage."""
ALERTS_WAITING = 64
RECORD_CAPACITY_BYTES = 16 * 2**20


class StateMessage(msgspec.Struct, frozen=True):
    """Body of ``foveate/{camera}/state``."""

    state: str
    reason: str
    since: str


class Publisher:
    """Publishes for all cameras of an agent.

    Results and counts go out at once (QoS 0). States, availability and alerts (QoS 1) are sent by ``run``. What is
    retained is sent again on every connect, and until the session has taken it: the newest per topic. Alerts wait for
    the broker in order; of too many the oldest give way.
    """

    def __init__(self, agent: str, transport: Transport) -> None:
        self._transport = transport
        self._available = topics.available(agent)
        self._retained: dict[str, Outgoing] = {}
        self._unsent: set[str] = set()
        self._alerts: deque[Outgoing] = deque()
        self._counts: dict[str, dict[str, int]] = {}
        self._wake, self._sending = asyncio.Event(), asyncio.Lock()
        self.counters: Counter[str] = Counter()
        transport.on_connect(self._birth)
        self._keep(Outgoing(self._available, b"online", qos=1, retain=True))

    @staticmethod
    def will(agent: str) -> Outgoing:
        """What the broker says for an agent that is gone."""
        return Outgoing(topics.available(agent), b"offline", qos=1, retain=True)

    async def result(self, result: Result) -> None:
        """Publish one result and the counts that it changes; a revision, of a frame that is past, changes none."""
        status = await self._transport.publish(Outgoing(topics.result(result.camera), encode_result(result)))
        self.counters[status.value] += 1
        if result.revision:
            return
        known = self._counts.setdefault(result.camera, {})
        counts = Counter(found.label for found in result.detections)
        for label in sorted({*known, *counts}):
            if known.get(label) != counts[label]:
                known[label] = counts[label]
                topic = topics.count(result.camera, label)
                self._keep(Outgoing(topic, str(counts[label]).encode(), retain=True))
                await self._send(topic)

    async def state(self, camera: str, state: CameraState, reason: str, since: datetime) -> None:
        """Publish a camera's state, soon."""
        body = msgspec.json.encode(StateMessage(state.value, reason, rfc3339(since)))
        self._keep(Outgoing(topics.state(camera), body, qos=1, retain=True))
        self._wake.set()

    def alert(self, alert: AnyAlert) -> None:
        """Publish an alert, soon."""
        if len(self._alerts) >= ALERTS_WAITING:
            self._alerts.popleft()
            self.counters["alerts_lost"] += 1
        self._alerts.append(Outgoing(topics.alert(alert.camera), encode_alert(alert), qos=1))
        self._wake.set()

    def retain(self, outgoing: Outgoing) -> None:
        """Publish a retained message, soon, and again whenever the session comes back."""
        self._keep(outgoing)
        self._wake.set()

    def _keep(self, outgoing: Outgoing) -> None:
        self._retained[outgoing.topic] = outgoing
        self._unsent.add(outgoing.topic)

    async def _send(self, topic: str) -> None:
        """Send a retained message. A refused one waits for the next connect: asking again at once would not help."""
        outgoing = self._retained[topic]
        status = await self._transport.publish(outgoing)
        if status in (PublishStatus.SENT, PublishStatus.REFUSED) and self._retained[topic] is outgoing:
            self._unsent.discard(topic)
        if status is not PublishStatus.SENT:
            self.counters[f"retained_{status.value}"] += 1

    async def _birth(self) -> None:
        self._unsent.update(self._retained)
        self._wake.set()

    async def run(self) -> None:
        """Send what is retained until cancelled: at once, and again after a moment where that failed."""
        while True:
            self._wake.clear()
            if self._transport.state.connected:
                await self._send_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if self._unsent or self._alerts else None):
                    await self._wake.wait()

    async def _send_all(self) -> None:
        async with self._sending:
            for topic in sorted(self._unsent):
                await self._send(topic)
            await self._send_alerts()

    async def _send_alerts(self) -> None:
        while self._alerts:
            alert = self._alerts[0]
            status = await self._transport.publish(alert)
            if status not in (PublishStatus.SENT, PublishStatus.REFUSED):
                return
            self.counters[f"alerts_{status.value}"] += 1
            if self._alerts and self._alerts[0] is alert:  # while it was sent it may have given way
                self._alerts.popleft()

    async def goodbye(self, running: Iterable[str] = ()) -> None:
        """Say that the agent stops on purpose: its ``running`` cameras are offline, and nothing counts any more.

        A count is taken back (an empty retained message) rather than set to 0, which would claim an empty scene.
        """
        for camera in running:
            await self.state(camera, CameraState.OFFLINE, "the agent has stopped", wall_time())
        for camera, counts in self._counts.items():
            for label in counts:
                self._keep(Outgoing(topics.count(camera, label), b"", retain=True))
        self._counts.clear()
        self._keep(Outgoing(self._available, b"offline", qos=1, retain=True))
        await self._send_all()


class RecordFile:
    """An open file that takes whole lines or none: what a full disk has taken of a write is taken back."""

    def __init__(self, file: FileIO) -> None:
        self._file, self._whole_bytes = file, 0

    def write(self, data: bytes) -> None:
        """Append ``data``; blocks. Raises OSError."""
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):  # not every file can be cut, a pipe for one
                self._file.truncate(self._whole_bytes)
                self._file.seek(self._whole_bytes)
            raise
        self._whole_bytes += len(data)


class RecordWriter:
    """Writes results to a file, one JSON per line, away from the event loop.

    ``write_lines`` appends text and may block; it is called on a thread. Lines beyond the bound, and those that the
    disk does not take, are counted in ``lost``; ``fault`` is the newest reason.
    """

    def __init__(self, write_lines: Callable[[bytes], object]) -> None:
        self._write_lines = write_lines
        self._lines: list[bytes] = []
        self._held_bytes = 0
        self.lost = 0
        self.fault = ""

    def add(self, result: Result) -> None:
        """Take one result in."""
        line = encode_result(result) + b"\n"
        if self._held_bytes + len(line) > RECORD_CAPACITY_BYTES:
            self.lost += 1
            self.fault = self.fault or "the disk is too slow"
            return
        self._lines.append(line)
        self._held_bytes += len(line)

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
        finally:
            self._held_bytes -= sum(map(len, lines))
            if write.done() and (error := write.result()) is not None:
                self.failed(error, len(lines))

    def _write(self, lines: list[bytes]) -> OSError | None:
        try:
            self._write_lines(b"".join(lines))
        except OSError as error:
            return error
        return None

    def failed(self, error: OSError, lines: int) -> None:
        """Note that ``lines`` lines were not written."""
        self.lost += lines
        if not self.fault:
            _log.error("the record cannot be written, results are being lost: %s", error.strerror or error)
        self.fault = error.strerror or str(error)
