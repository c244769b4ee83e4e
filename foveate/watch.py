"""``foveate watch``: subscribe, and print results and alerts as they come."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime
from typing import TextIO

import msgspec

from pipeline.alerts import AnyAlert, decode_alert, encode_alert
from pipeline.errors import BrokerError
from pipeline.results import Result, decode_result, encode_result
from pipeline.transport.base import Message
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings, TlsSettings
from pipeline.transport.url import parse_broker_url
from pipeline.wire import topics

WAITING_LINES = 1000
SHOWN_TRACKS = 8


async def watch(
    broker_url: str,
    camera: str | None,
    as_json: bool,
    out: TextIO,
    tls: TlsSettings | None = None,
    connect_within_s: float = 10.0,
) -> None:
    """Print one line per result or alert of a camera, or of all, until cancelled or ``out`` is closed by its reader.

    Raises ConfigError on a bad URL or camera name, BrokerError where no connection is made within ``connect_within_s``;
    a connection that is lost later comes back by itself.
    """
    url = parse_broker_url(broker_url)
    session = MqttTransport(MqttSettings.of(url, tls))
    lines = Lines(as_json)
    session.subscribe(topics.ANY_RESULT if camera is None else topics.result(camera), lines.take)
    session.subscribe(topics.ANY_ALERT if camera is None else topics.alert(camera), lines.take_alert, qos=1)
    running = asyncio.ensure_future(session.run())
    ready = asyncio.ensure_future(session.wait_connected())
    try:
        await asyncio.wait({running, ready}, timeout=connect_within_s, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()  # raises: it ends by itself only over the TLS files
        if not ready.done():
            raise BrokerError(
                f"No connection to the broker {url} within {connect_within_s:g} s: {session.state.reason};"
                " start one with 'foveate broker', or name another with --broker."
            )
        with contextlib.suppress(BrokenPipeError):  # the reader, say ``head``, has seen enough
            await lines.print_to(out)
    finally:
        running.cancel()
        ready.cancel()
        await asyncio.gather(running, ready, return_exceptions=True)


class Lines:
    """Lines that wait to be printed: a bounded number, the oldest give way, so that slow output slows nothing else."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._waiting: deque[str] = deque()
        self._skipped = 0
        self._changed = asyncio.Event()

    def take(self, message: Message) -> None:
        """Handle a result: a retained one is no news, and what is none is told as such."""
        self._take(message, "a result", self._of_result)

    def take_alert(self, message: Message) -> None:
        """Handle an alert, as a result."""
        self._take(message, "an alert", self._of_alert)

    def _of_result(self, payload: bytes) -> str:
        result = decode_result(payload)
        return encode_result(result).decode() if self._as_json else readable(result)

    def _of_alert(self, payload: bytes) -> str:
        alert = decode_alert(payload)
        return encode_alert(alert).decode() if self._as_json else readable_alert(alert)

    def _take(self, message: Message, kind: str, to_line: Callable[[bytes], str]) -> None:
        if message.retain:
            return
        try:
            line = to_line(message.payload)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            if self._as_json:
                return
            line = printable(f"{message.topic}: not {kind}: {error}"[:300])
        if len(self._waiting) >= WAITING_LINES:
            self._waiting.popleft()
            self._skipped += 1
        self._waiting.append(line)
        self._changed.set()

    async def print_to(self, out: TextIO) -> None:
        """Print whatever comes, for ever. Raises BrokenPipeError where nobody reads any more."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            lines = list(self._waiting)
            self._waiting.clear()
            if self._skipped and not self._as_json:
                lines.insert(0, f"({self._skipped} lines skipped: the output is too slow)")
            self._skipped = 0
            await asyncio.to_thread(_write, out, lines)


def readable(result: Result) -> str:
    """One line for people: time, camera, frame, how it was answered, by which tier and how fast, what was seen."""
    total_ms = result.timings_ms.total
    parts = [
        f"{_time(result.captured_at)} {result.camera} #{result.seq} {result.origin}",
        f" ({result.tier})" if result.tier not in (None, "device") else "",
        "" if total_ms is None else f" {total_ms:.0f} ms",
        "" if result.deadline_met else " LATE",
        f" revision {result.revision}" if result.revision else "",
        f"  {_seen(result)}",
    ]
    return printable("".join(parts))


def readable_alert(alert: AnyAlert) -> str:
    """One line for people: time, camera, what it is about, and why or what was measured and done."""
    return printable(f"{_time(alert.at)} {alert.camera} ALERT {alert.state}  {alert.detail}")


def printable(text: str) -> str:
    """Text without control characters: names come from outside and must not steer the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _time(moment: str) -> str:
    return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _seen(result: Result) -> str:
    counts = Counter(detection.label for detection in result.detections)
    if not counts:
        return "nothing"
    labels = ", ".join(f"{label} {count}" for label, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
    tracks = sorted({one.track_id for one in result.detections if one.track_id is not None})
    if not tracks:
        return labels
    shown = ", ".join(str(track) for track in tracks[:SHOWN_TRACKS])
    return f"{labels}  (track {shown}{', ...' if len(tracks) > SHOWN_TRACKS else ''})"


def _write(out: TextIO, lines: list[str]) -> None:
    out.write("".join(f"{line}\n" for line in lines))
    out.flush()
