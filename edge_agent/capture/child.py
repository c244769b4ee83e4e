"""The reader process of one camera: ``python -m edge_agent.capture.child``, started by the agent.

It opens one source once, answers on standard output (see ``protocol``), and ends when its input ends. Whatever hangs,
leaks or crashes in a decoder does so here, at the cost of this camera alone.

Besides the decoder's own, it holds at most four pictures: one being read, two that wait (one of a live source), and
the one in the shared file.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from edge_agent.capture.address import SourceKind, device_path, host_and_port
from edge_agent.capture.protocol import Answer, Idle, Opened, Opening, Order, Over, Picture, decode_order, encode
from pipeline.results import CameraState
from pipeline.timing import MonotonicClock

if TYPE_CHECKING:  # numpy and OpenCV are loaded only when it is time to open
    from edge_agent.capture.outbox import Held, Outbox
    from edge_agent.capture.readers import Reader

IDLE_S = 0.2
PROBE_EVERY_S = 1.0
FILE_STUCK_S = 30.0
STOP_GRACE_S = 0.2
_PR_SET_PDEATHSIG = 1

CLOCK = MonotonicClock()


def main() -> int:
    """Serve one source until the agent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches the whole group; the agent decides what it means
    _die_with_parent()
    commands, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    line = commands.readline()
    if not line:
        return 0
    order = decode_order(line)
    _set_environment(order)
    if not _wait_for_turn(order):
        return 0
    with contextlib.suppress(BrokenPipeError):  # the agent is gone
        _serve(order, commands, answers)
    # A reader that hangs must not hold the process back, and a capture must not be released from outside its thread.
    os._exit(0)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _set_environment(order: Order) -> None:
    """Options that the libraries take from the environment only: this process is one camera's own."""
    os.environ |= {
        "OPENCV_FFMPEG_CAPTURE_OPTIONS": f"rtsp_transport;{order.rtsp_transport}",
        "OPENCV_IO_MAX_IMAGE_PIXELS": str(order.pixel_limit),
        "OPENCV_LOG_LEVEL": "ERROR",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _wait_for_turn(order: Order) -> bool:
    """Wait out the delay, less where the source comes within reach meanwhile; False when the agent hung up."""
    end_s = CLOCK.now_s() + order.wait_s
    was_away = order.wait_s > 0 and order.probe and not _within_reach(order)
    while (left_s := end_s - CLOCK.now_s()) > 0:
        if select.select([0], [], [], min(left_s, PROBE_EVERY_S))[0]:
            return False
        if was_away and _within_reach(order):
            break
    return True


def _within_reach(order: Order) -> bool:
    if order.kind is SourceKind.URL:
        try:
            with socket.create_connection(host_and_port(order.target), timeout=PROBE_EVERY_S):
                return True
        except OSError:
            return False
    return Path(device_path(order.target)).exists()


def _serve(order: Order, commands: BinaryIO, answers: BinaryIO) -> None:
    from edge_agent.capture.opening import library_versions
    from edge_agent.capture.outbox import Outbox
    from edge_agent.capture.pixels import SharedPicture

    live = order.kind is not SourceKind.PATH
    outbox = Outbox(newest_wins=live or order.realtime)
    pump = Pump(order, outbox, live=live)
    _send(answers, Opening(*library_versions()))
    reading = threading.Thread(target=pump.run, name="read", daemon=True)
    reading.start()
    _send(answers, outbox.wait_opened())
    shared = SharedPicture(order.shared_file)
    while commands.readline():
        item = outbox.take(IDLE_S)
        if item is None:
            overdue = pump.overdue()
            _send(answers, outbox.counted(overdue) if overdue else Idle())
        elif isinstance(item, Over):
            _send(answers, item)
        else:
            shared.write(item.image)
            _send(answers, _picture(item))
    pump.stop()
    reading.join(STOP_GRACE_S)


def _send(answers: BinaryIO, answer: Answer) -> None:
    answers.write(encode(answer))


def _picture(held: "Held") -> Picture:
    height, width = held.image.shape[:2]
    return Picture(height, width, held.captured_at_s, held.media_ms, held.lost, held.unusable)


class Pump:
    """Moves pictures from the reader into the outbox; runs in the one thread that touches the reader."""

    def __init__(self, order: Order, outbox: "Outbox", *, live: bool) -> None:
        self._order = order
        self._outbox = outbox
        self._live = live
        self._stopping = threading.Event()
        self._reading_since_s: float | None = None
        self._usable_at_s: float | None = None
        self._complaint = ""

    def run(self) -> None:
        """Open, read until the end, release."""
        from edge_agent.capture.opening import explain_silence, open_reader

        try:
            reader = open_reader(self._order)
            if isinstance(reader, Over):
                self._outbox.finish(reader)
                return
            pictures = 0
            try:
                over, pictures = self._read_all(reader)
            finally:
                reader.release()
            if over is not None:
                self._outbox.finish(over if pictures else explain_silence(self._order, over, self._complaint))
        except Exception as error:  # noqa: BLE001 - the thread's last word: its reason must reach the agent
            self._outbox.finish(Over(CameraState.OFFLINE, f"the reader failed: {error!r}", final=not self._live))

    def stop(self) -> None:
        """Ask the thread to release its reader and end."""
        self._stopping.set()
        self._outbox.stop()

    def overdue(self) -> Over | None:
        """The end of the session where a read takes too long, or nothing usable comes from a live source."""
        now_s, since_s, usable_at_s = CLOCK.now_s(), self._reading_since_s, self._usable_at_s
        limit_s = self._order.read_timeout_s if self._live else max(FILE_STUCK_S, self._order.read_timeout_s)
        if since_s is not None and now_s - since_s > limit_s:
            return Over(CameraState.STALE, f"no picture for {limit_s:g} s", final=not self._live)
        if self._live and usable_at_s is not None and now_s - usable_at_s > limit_s:
            state, reason = CameraState.STALE, f"no usable picture for {limit_s:g} s"
            if self._complaint:
                state, reason = CameraState.INVALID_INPUT, f"{reason}: {self._complaint}"
            return Over(state, reason, final=False)
        return None

    def _read_all(self, reader: "Reader") -> tuple[Over | None, int]:
        from edge_agent.capture.outbox import Pacer
        from edge_agent.capture.readers import Shot

        pacer = Pacer(reader.fps_hz, CLOCK) if self._order.realtime and not self._live else None
        pictures = 0
        self._usable_at_s = CLOCK.now_s()
        self._outbox.opened(Opened(reader.total_frames))
        while not self._stopping.is_set():
            self._reading_since_s = CLOCK.now_s()
            shot = reader.read()
            captured_at_s = CLOCK.now_s()
            self._reading_since_s = None
            if isinstance(shot, Over):
                return shot, pictures
            if not isinstance(shot, Shot):
                self._complaint = shot.reason
                self._outbox.unusable()
                continue
            if pacer is not None:
                self._stopping.wait(pacer.delay_s(shot.media_ms))
                captured_at_s = CLOCK.now_s()
            pictures += 1
            self._usable_at_s = captured_at_s
            self._outbox.put(shot.image, captured_at_s, shot.media_ms)
        return None, pictures


if __name__ == "__main__":
    sys.exit(main())
