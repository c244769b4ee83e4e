"""Where the reading thread of a reader process leaves its pictures, and how a file is paced."""

import threading
from collections import deque
from dataclasses import dataclass

import msgspec

from edge_agent.capture.protocol import Opened, Over
from pipeline.frames import Image
from pipeline.timing import Clock

READ_AHEAD_PICTURES = 2
FALLBACK_FPS_HZ = 25.0  # of a source that has neither time stamps nor a declared rate


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A picture that waits to be asked for, with the counts since the one before it."""

    image: Image
    captured_at_s: float
    media_ms: float | None
    lost: int
    unusable: int


class Outbox:
    """A bounded hand-over between two threads: newest wins (capacity 1), or the writer waits (capacity 2)."""

    def __init__(self, *, newest_wins: bool) -> None:
        self._newest_wins = newest_wins
        self._changed = threading.Condition()
        self._held: deque[Held] = deque()
        self._opened: Opened | None = None
        self._over: Over | None = None
        self._lost = 0
        self._unusable = 0
        self._stopped = False

    def opened(self, opened: Opened) -> None:
        """The source is open."""
        with self._changed:
            self._opened = opened
            self._changed.notify_all()

    def put(self, image: Image, captured_at_s: float, media_ms: float | None) -> bool:
        """Leave a picture, waiting for room where none may be lost; False once stopped."""
        with self._changed:
            if self._newest_wins and self._held:
                displaced = self._held.popleft()
                self._lost += 1 + displaced.lost
                self._unusable += displaced.unusable
            while len(self._held) >= READ_AHEAD_PICTURES and not self._stopped:
                self._changed.wait()
            self._held.append(Held(image, captured_at_s, media_ms, self._lost, self._unusable))
            self._lost = self._unusable = 0
            self._changed.notify_all()
            return not self._stopped

    def unusable(self) -> None:
        """A picture could not be used."""
        with self._changed:
            self._unusable += 1

    def finish(self, over: Over) -> None:
        """Nothing more will come."""
        with self._changed:
            self._over = over
            self._changed.notify_all()

    def stop(self) -> None:
        """Let a waiting writer go."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def wait_opened(self) -> Opened | Over:
        """Wait until the source is open, or cannot be opened. The agent watches how long this takes."""
        with self._changed:
            while True:
                if opening := self._opened or self._over:
                    return opening
                self._changed.wait()

    def take(self, timeout_s: float) -> Held | Over | None:
        """The next picture, else the end, else None after ``timeout_s``."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._held) or self._over is not None, timeout_s)
            if self._held:
                held = self._held.popleft()
                self._changed.notify_all()
                return held
            return None if self._over is None else self.counted(self._over)

    def counted(self, over: Over) -> Over:
        """``over`` with the counts since the last picture."""
        return msgspec.structs.replace(over, lost=self._lost, unusable=self._unusable)


class Pacer:
    """Says when a picture of a file is due, as if the file were a camera that began with its first picture."""

    def __init__(self, fps_hz: float | None, clock: Clock) -> None:
        self._step_ms = 1000.0 / (fps_hz or FALLBACK_FPS_HZ)
        self._clock = clock
        self._zero_s: float | None = None
        self._position_ms = 0.0

    def delay_s(self, media_ms: float | None) -> float:
        """Seconds until the next picture is due, 0 when it is late."""
        if self._zero_s is None:
            self._position_ms = media_ms or 0.0
            self._zero_s = self._clock.now_s() - self._position_ms / 1000
            return 0.0
        self._position_ms = media_ms if media_ms is not None else self._position_ms + self._step_ms
        return max(0.0, self._zero_s + self._position_ms / 1000 - self._clock.now_s())
