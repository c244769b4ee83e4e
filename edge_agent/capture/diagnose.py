"""Why OpenCV refused a source: it only says that it did. Runs in the reader process, after the fact."""

import contextlib
import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from edge_agent.capture.address import device_path
from edge_agent.capture.protocol import Order, Over
from pipeline.results import CameraState

_HEAD_BYTES = 4096
_TEXT_SHARE = 0.95
_STATUS = re.compile(r"\b(401|403|404|45\d|5\d\d) ?\(?([A-Z][A-Za-z -]*)\)?")
_OPENCV_PREFIX = re.compile(r"^\[ *(?:WARN|ERROR|INFO):")


@contextlib.contextmanager
def recorded_stderr() -> Iterator[list[str]]:
    """Collect what native code writes to descriptor 2, filled at the end, and pass it on."""
    lines: list[str] = []
    sys.stderr.flush()
    with tempfile.TemporaryFile() as record:
        keep = os.dup(2)
        os.dup2(record.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(keep, 2)
            record.seek(0)
            data = record.read()
            with contextlib.suppress(OSError):
                os.write(keep, data)
            os.close(keep)
            lines += data.decode(errors="replace").splitlines()


def refuse_path(path: Path) -> Over | None:
    """Why a path cannot be a video before any decoder looks at it, or None."""
    try:
        status = path.stat()
    except OSError as error:
        return _invalid(_path_fault(path, error))
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return _invalid(f"{path} is neither a file nor a folder")
    if status.st_size == 0:
        return _invalid(f"the file {path} is empty")
    if not os.access(path, os.R_OK):
        return _invalid(f"the file {path} may not be read by this user; check its permissions")
    return None


def _path_fault(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        hint = f"; for a camera write device:{path}" if str(path).isdigit() else "; check the path"
        return f"the file {path} does not exist{hint}"
    return f"the path {path} cannot be used: {error.strerror}"


def explain_file(path: Path) -> Over:
    """Why a file gave no picture."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if _is_text(head):
        return _invalid(f"the file {path} holds text, not video")
    if _is_cut_short(path):
        return _invalid(f"the file {path} is cut short: its index (moov) is missing or incomplete")
    return _explain_with_av(str(path), f"the file {path}", {}, None) or _invalid(
        f"the file {path} is damaged: it holds video, but no picture can be decoded"
    )


def explain_stream(order: Order, url: str, shown: str, noise: list[str]) -> Over:
    """Why a URL gave no stream: by what FFmpeg already said, else by asking once more."""
    said = [line for line in noise if not _OPENCV_PREFIX.match(line)]
    for line in said:
        if status := _STATUS.search(line):
            return stream_refused(int(status[1]), status[2].strip(), shown)
    if said and (fault := re.search(r"failed: (.+)$", said[0])):
        return _offline(f"{shown} cannot be reached: {fault[1].strip().lower()}")
    options = {"rtsp_transport": order.rtsp_transport} if shown.startswith("rtsp") else {}
    found = _explain_with_av(url, shown, options, order.open_timeout_s / 2)
    return found or _offline(f"{shown} could not be opened")


def stream_refused(status: int, words: str, shown: str) -> Over:
    """The state for a refusal by RTSP or HTTP status code."""
    if status in (401, 403):
        reason = f"{shown} refused user and password ({status} {words}); check them"
        return Over(CameraState.AUTH_FAILED, reason, final=False)
    return _offline(f"{shown} answered {status} {words}")


def explain_device(target: str) -> Over:
    """Why a camera device did not open; all of it can change while we wait."""
    path = Path(device_path(target))
    if not path.exists():
        return _offline(f"there is no device {path}; is the camera plugged in?")
    if not os.access(path, os.R_OK | os.W_OK):
        return _offline(f"the device {path} may not be used by this user; add the user to the group video")
    return _offline(f"the device {path} is busy or is no camera")


def _explain_with_av(source: str, shown: str, options: dict[str, str], timeout_s: float | None) -> Over | None:
    import av  # only now: it costs memory that a healthy camera need not pay

    try:
        with av.open(source, options=options, timeout=timeout_s) as container:
            if not container.streams.video:
                what = "sound but no pictures" if container.streams.audio else "no video stream"
                return _invalid(f"{shown} has {what}")
            context = container.streams.video[0].codec_context
            if context is None:
                return _unsupported(_sample_entry(Path(source)) or "unknown", shown)
            next(container.decode(video=0))
            return _unsupported(context.codec.canonical_name, shown)
    except (av.HTTPUnauthorizedError, av.HTTPForbiddenError) as error:
        return stream_refused(401, error.strerror, shown)
    except av.InvalidDataError:
        return _invalid(f"{shown} is not a video, or its beginning is damaged") if timeout_s is None else None
    except (av.FFmpegError, StopIteration) as error:
        words = getattr(error, "strerror", None)
        return _offline(f"{shown} cannot be reached: {words}") if words and timeout_s is not None else None


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    printable = sum(byte >= 0x20 or byte in b"\t\r\n" for byte in head)
    with contextlib.suppress(UnicodeDecodeError):
        head[:-4].decode()  # the cut may go through a character
        return printable >= _TEXT_SHARE * len(head)
    return False


def _boxes(path: Path) -> Iterator[tuple[bytes, int, int]]:
    """The top-level boxes of an ISO media file as (type, start, end)."""
    size_bytes = path.stat().st_size
    start = 0
    with path.open("rb") as file:
        while start + 8 <= size_bytes:
            file.seek(start)
            header = file.read(16)
            length = int.from_bytes(header[:4], "big")
            if length == 1:
                length = int.from_bytes(header[8:16], "big")
            end = start + length if length else size_bytes
            if end < start + 8:
                return
            yield header[4:8], start, end
            start = end


def _is_cut_short(path: Path) -> bool:
    boxes = {name: end for name, _, end in _boxes(path)}
    return b"ftyp" in boxes and boxes.get(b"moov", sys.maxsize) > path.stat().st_size


def _sample_entry(path: Path) -> str | None:
    """The four letters by which an ISO media file names the codec of its first sample entry."""
    if not path.is_file():
        return None
    for name, start, end in _boxes(path):
        if name == b"moov":
            with path.open("rb") as file:
                file.seek(start)
                index = file.read(end - start)
            at = index.find(b"stsd")
            return index[at + 16 : at + 20].decode("ascii", "replace") if at >= 0 else None
    return None


def _invalid(reason: str) -> Over:
    return Over(CameraState.INVALID_INPUT, reason, final=True)


def _unsupported(codec: str, shown: str) -> Over:
    return Over(CameraState.UNSUPPORTED_CODEC, f"unsupported_codec: {codec} ({shown})", final=True)


def _offline(reason: str) -> Over:
    return Over(CameraState.OFFLINE, reason, final=False)
