"""HTTP MJPEG (multipart/x-mixed-replace), read here rather than by FFmpeg.

The compressed bytes are then at hand, so a picture that was cut off on the way is seen and dropped, and a slow camera
opens at once, because nothing has to guess a frame rate first.
"""

import http.client
import urllib.error
import urllib.request
from typing import Any

from edge_agent.capture.address import credentials, mask_url, with_credentials
from edge_agent.capture.diagnose import stream_refused
from edge_agent.capture.picture import to_bgr
from edge_agent.capture.protocol import Order, Over
from edge_agent.capture.readers import Shot, Unusable, decode_image
from pipeline.results import CameraState

MULTIPART = "multipart/x-mixed-replace"
END_OF_IMAGE = b"\xff\xd9"
PART_LIMIT_BYTES = 64 * 1024 * 1024
_LINE_LIMIT_BYTES = 64 * 1024
_HEADER_LINES_LIMIT = 100
# urllib tries a refused digest password five more times; starting its count here makes it one try.
_DIGEST_RETRIES_SPENT = 5

_BROKEN = (OSError, http.client.HTTPException)


class MjpegReader:
    """A multipart response, one JPEG a part."""

    def __init__(self, response: Any, boundary: str, pixel_limit: int) -> None:
        self._response = response
        # Some cameras announce the boundary with its dashes, others without.
        self._delimiter = b"--" + boundary.strip('"').lstrip("-").encode()
        self._pixel_limit = pixel_limit
        self._at_headers = False

    @property
    def total_frames(self) -> int | None:
        return None

    @property
    def fps_hz(self) -> float | None:
        return None

    def read(self) -> Shot | Unusable | Over:
        try:
            data = self._part()
        except _BROKEN as error:
            return Over(CameraState.STALE, f"the stream broke off: {error or type(error).__name__}", final=False)
        if data is None:
            return Over(CameraState.STALE, "the stream broke off", final=False)
        if not data.rstrip(b"\r\n\0 ").endswith(END_OF_IMAGE):
            return Unusable("a JPEG was cut off: it has no end marker")
        image = to_bgr(decode_image(data), self._pixel_limit)
        return Unusable(image) if isinstance(image, str) else Shot(image, None)

    def release(self) -> None:
        self._response.close()

    def _part(self) -> bytes | None:
        while not self._at_headers:
            line = self._line()
            if line is None:
                return None
            self._at_headers = line.startswith(self._delimiter)
        self._at_headers = False
        length_bytes: int | None = None
        for _ in range(_HEADER_LINES_LIMIT):
            line = self._line()
            if line is None:
                return None
            if not line.strip():
                break
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                length_bytes = int(value)
        return self._sized(length_bytes) if length_bytes is not None else self._until_delimiter()

    def _line(self) -> bytes | None:
        line: bytes = self._response.readline(_LINE_LIMIT_BYTES)
        return line or None

    def _sized(self, length_bytes: int) -> bytes | None:
        if length_bytes > PART_LIMIT_BYTES:
            raise OSError(f"a part of {length_bytes} bytes is over the limit of {PART_LIMIT_BYTES}")
        data: bytes = self._response.read(length_bytes)
        return data if len(data) == length_bytes else None

    def _until_delimiter(self) -> bytes | None:
        data = bytearray()
        while line := self._line():
            if line.startswith(self._delimiter):
                self._at_headers = True
                return bytes(data)
            data += line
            if len(data) > PART_LIMIT_BYTES:
                raise OSError(f"a part without a length is over the limit of {PART_LIMIT_BYTES} bytes")
        return None


def open_mjpeg(order: Order) -> MjpegReader | Over | None:
    """Open a HTTP URL; None where it answers with something else than multipart, which is FFmpeg's to read."""
    url, user, word = credentials(with_credentials(order.target, order.username, order.password))
    shown = mask_url(order.target)
    try:
        # The read timeout is the agent's to watch; a socket that knew only the shorter one would cut reads off early.
        response = _opener(url, user, word).open(url, timeout=max(order.open_timeout_s, order.read_timeout_s))
    except urllib.error.HTTPError as error:
        with error:
            return stream_refused(error.code, error.reason, shown)
    except ValueError as error:  # an authentication scheme that urllib does not speak
        return stream_refused(401, str(error), shown)
    except _BROKEN as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            reason = f"{shown} did not answer within {order.open_timeout_s:g} s"
            return Over(CameraState.OFFLINE, reason, final=False)
        words = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
        return Over(CameraState.OFFLINE, f"{shown} cannot be reached: {words.lower()}", final=False)
    if response.headers.get_content_type() == MULTIPART:
        return MjpegReader(response, str(response.headers.get_param("boundary") or ""), order.pixel_limit)
    response.close()
    return None


def _opener(url: str, user: str, word: str) -> urllib.request.OpenerDirector:
    direct = urllib.request.ProxyHandler({})  # cameras live beside the agent, not behind a proxy
    if not user:
        return urllib.request.build_opener(direct)
    known = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    known.add_password(None, url, user, word)
    digest = urllib.request.HTTPDigestAuthHandler(known)
    digest.retried = _DIGEST_RETRIES_SPENT  # type: ignore[attr-defined]  # absent from the stubs
    return urllib.request.build_opener(direct, urllib.request.HTTPBasicAuthHandler(known), digest)
