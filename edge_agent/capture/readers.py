"""The readers of a child process: each hands over one picture at a time. Blocking; owned by one thread."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np

from edge_agent.capture.address import SourceKind
from edge_agent.capture.outbox import FALLBACK_FPS_HZ
from edge_agent.capture.picture import to_bgr
from edge_agent.capture.protocol import Order, Over
from pipeline.frames import Image
from pipeline.results import CameraState

PICTURE_SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
SANE_FPS_HZ = (0.1, 1000.0)
SANE_FRAMES = (1, 10**8)
# A read that fails may succeed the next time; these bound the patience, and the pause keeps it from being a busy loop.
EMPTY_READ_PAUSE_S = 0.02
EMPTY_READS_LIVE = 50
EMPTY_READS_FILE = 5


@dataclass(frozen=True, slots=True, eq=False)
class Shot:
    """A usable picture, (h, w, 3) uint8 BGR, and its position in the source."""

    image: Image
    media_ms: float | None


@dataclass(frozen=True, slots=True)
class Unusable:
    """A picture that cannot be used, and why."""

    reason: str


class Reader(Protocol):
    """One open source."""

    @property
    def total_frames(self) -> int | None: ...

    @property
    def fps_hz(self) -> float | None:
        """The declared rate, None where it makes no sense."""
        ...

    def read(self) -> Shot | Unusable | Over: ...

    def release(self) -> None: ...


class MediaClock:
    """Turns a back end's positions into times that start at or after 0 and strictly increase.

    Where the position stands still (raw streams have none) the declared rate carries on; without one the picture has
    no time.
    """

    def __init__(self, fps_hz: float | None) -> None:
        self._step_ms = 1000.0 / fps_hz if fps_hz else None
        self._shift_ms = 0.0
        self._last_ms: float | None = None

    def at(self, position_ms: float) -> float | None:
        """The time of the next picture, of which the back end says that it is at ``position_ms``."""
        known = bool(np.isfinite(position_ms))
        if self._last_ms is None:
            self._shift_ms = -min(position_ms, 0.0) if known else 0.0
            self._last_ms = position_ms + self._shift_ms if known else 0.0
        elif known and position_ms + self._shift_ms > self._last_ms:
            self._last_ms = position_ms + self._shift_ms
        elif self._step_ms is not None:
            self._last_ms += self._step_ms
        else:
            return None
        return self._last_ms


def _sane(value: float, bounds: tuple[float, float]) -> float | None:
    return value if bounds[0] <= value <= bounds[1] else None


class CvReader:
    """An OpenCV capture: a file, an RTSP stream, a device."""

    def __init__(self, capture: Any, order: Order, *, live: bool) -> None:
        self._capture = capture
        self._pixel_limit = order.pixel_limit
        self._live = live
        frames = _sane(capture.get(cv2.CAP_PROP_FRAME_COUNT), SANE_FRAMES)
        self._total = None if live or frames is None else int(frames)
        self._fps_hz = _sane(capture.get(cv2.CAP_PROP_FPS), SANE_FPS_HZ)
        self._media = MediaClock(None if live else self._fps_hz)
        self._pictures = 0

    @property
    def total_frames(self) -> int | None:
        return self._total

    @property
    def fps_hz(self) -> float | None:
        return self._fps_hz

    def read(self) -> Shot | Unusable | Over:
        for _ in range(EMPTY_READS_LIVE if self._live else EMPTY_READS_FILE):
            success, raw = self._capture.read()
            if success and raw is not None and raw.size:
                self._pictures += 1
                media_ms = self._media.at(self._capture.get(cv2.CAP_PROP_POS_MSEC))
                image = to_bgr(raw, self._pixel_limit)
                return Unusable(image) if isinstance(image, str) else Shot(image, media_ms)
            time.sleep(EMPTY_READ_PAUSE_S)
        if self._live:
            return Over(CameraState.STALE, "the stream broke off", final=False)
        missing = "" if self._total in (None, self._pictures) else f"; its header promised {self._total}"
        plural = "" if self._pictures == 1 else "s"
        return Over(CameraState.FINISHED, f"the file ended after {self._pictures} picture{plural}{missing}", final=True)

    def release(self) -> None:
        self._capture.release()


class FolderReader:
    """The pictures of a folder in the order of their names, numbers in names by value, as if they were a film."""

    def __init__(self, folder: Path, order: Order) -> None:
        self._pixel_limit = order.pixel_limit
        found = (path for path in folder.iterdir() if path.suffix.lower() in PICTURE_SUFFIXES and path.is_file())
        self._paths = sorted(found, key=_natural_key)
        self._next = 0

    @property
    def total_frames(self) -> int | None:
        return len(self._paths)

    @property
    def fps_hz(self) -> float | None:
        return None

    def read(self) -> Shot | Unusable | Over:
        if self._next == len(self._paths):
            return Over(CameraState.FINISHED, f"all {self._next} pictures of the folder were read", final=True)
        path, media_ms = self._paths[self._next], self._next * 1000 / FALLBACK_FPS_HZ
        self._next += 1
        try:
            image = to_bgr(decode_image(path.read_bytes()), self._pixel_limit)
        except OSError as error:
            return Unusable(f"the picture {path.name} cannot be read: {error.strerror}")
        return Unusable(f"{path.name}: {image}") if isinstance(image, str) else Shot(image, media_ms)

    def release(self) -> None:
        self._paths = []


def _natural_key(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    parts = re.findall(r"\d+|\D+", path.name.lower())
    numbers_first = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
    return numbers_first, path.name


def decode_image(data: bytes) -> Any:
    """Decode a picture file to BGR, turned upright by its EXIF tag; None where OpenCV cannot or may not."""
    if not data:
        return None
    try:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error:  # a size over OPENCV_IO_MAX_IMAGE_PIXELS, or a damaged header
        return None


def open_capture(order: Order, target: str, open_with: Callable[..., Any] | None = None) -> Any:
    """Open with the back end named and one decoding thread (more would each hold a picture back); may fail quietly.

    ``target`` is the order's own, with user and password where it is a URL.
    """
    open_with = open_with or cv2.VideoCapture
    if order.kind is SourceKind.DEVICE:
        return open_with(int(target) if target.isdigit() else target, cv2.CAP_V4L2)
    params = [cv2.CAP_PROP_N_THREADS, 1]
    if order.kind is SourceKind.URL:
        params += [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, round(order.open_timeout_s * 1000)]
        params += [cv2.CAP_PROP_READ_TIMEOUT_MSEC, round(order.read_timeout_s * 1000)]
    return open_with(target, cv2.CAP_FFMPEG, params)
