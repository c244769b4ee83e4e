"""Opens the reader that an order asks for, or says why that cannot be. Runs in the reader process."""

import re
from pathlib import Path

import cv2

from edge_agent.capture.address import SourceKind, mask_url, with_credentials
from edge_agent.capture.diagnose import explain_device, explain_file, explain_stream, recorded_stderr, refuse_path
from edge_agent.capture.protocol import Order, Over
from edge_agent.capture.readers import CvReader, FolderReader, Reader, open_capture
from pipeline.results import CameraState
from pipeline.timing import MonotonicClock

# An open that took this share of its timeout failed by silence; asking again would only double the wait.
_SILENCE_SHARE = 0.8


def library_versions() -> tuple[str, str]:
    """Versions of OpenCV and of the libavcodec that it was built with ("" where it says none)."""
    codec = re.search(r"avcodec:\s+YES \(([^)]*)\)", cv2.getBuildInformation())
    return cv2.__version__, codec[1] if codec else ""


def open_reader(order: Order) -> Reader | Over:
    """Open the source of an order; takes at most its open timeout, or a little more for a local file."""
    cv2.setNumThreads(1)
    if order.kind is SourceKind.URL:
        return _open_url(order)
    if order.kind is SourceKind.DEVICE:
        capture = open_capture(order, order.target)
        return CvReader(capture, order, live=True) if capture.isOpened() else explain_device(order.target)
    path = Path(order.target)
    if refusal := refuse_path(path):
        return refusal
    if path.is_dir():
        return _open_folder(path, order)
    capture = open_capture(order, order.target)
    return CvReader(capture, order, live=False) if capture.isOpened() else explain_file(path)


def explain_silence(order: Order, over: Over, complaint: str) -> Over:
    """The end of a session that gave no usable picture at all: better the cause than the symptom."""
    if complaint:
        return Over(CameraState.INVALID_INPUT, f"no picture can be used: {complaint}", final=over.final)
    if order.kind is SourceKind.PATH:
        return explain_file(Path(order.target))
    return Over(CameraState.OFFLINE, "the source opened, but gave no picture", final=False)


def _open_folder(folder: Path, order: Order) -> Reader | Over:
    try:
        reader = FolderReader(folder, order)
    except OSError as error:
        reason = f"the folder {folder} cannot be read: {error.strerror}"
        return Over(CameraState.INVALID_INPUT, reason, final=True)
    if reader.total_frames == 0:
        return Over(CameraState.INVALID_INPUT, f"the folder {folder} holds no pictures (jpg, png, ...)", final=True)
    return reader


def _open_url(order: Order) -> Reader | Over:
    clock = MonotonicClock()
    shown = mask_url(order.target)
    if order.target.lower().startswith("http"):
        from edge_agent.capture.mjpeg import open_mjpeg

        opened = open_mjpeg(order)
        if opened is not None:
            return opened
    url = with_credentials(order.target, order.username, order.password)
    started_s = clock.now_s()
    with recorded_stderr() as noise:
        capture = open_capture(order, url)
    if capture.isOpened():
        return CvReader(capture, order, live=True)
    if clock.now_s() - started_s > _SILENCE_SHARE * order.open_timeout_s:
        return Over(CameraState.OFFLINE, f"{shown} did not answer within {order.open_timeout_s:g} s", final=False)
    return explain_stream(order, url, shown, noise)
