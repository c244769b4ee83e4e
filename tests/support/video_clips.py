"""Small video files made by the tests, with frames that can be told apart."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from pipeline.frames import Image

CODE_CELLS = 16
CODE_ROWS = 8
BACKGROUND_BGR = (150, 120, 90)
MARK_BGR = (40, 40, 220)
MARK_XYXY = (40, 30, 100, 80)


def scene(number: int, width: int = 320, height: int = 240) -> Image:
    """A flat picture (h, w, 3) BGR with a red mark and its number as black and white cells in the top rows."""
    image = np.full((height, width, 3), BACKGROUND_BGR, np.uint8)
    x1, y1, x2, y2 = MARK_XYXY
    image[y1:y2, x1:x2] = MARK_BGR
    cell = width // CODE_CELLS
    for bit in range(CODE_CELLS):
        image[:CODE_ROWS, bit * cell : (bit + 1) * cell] = 255 if number >> bit & 1 else 0
    return image


def number_of(image: Image) -> int:
    """The number that a scene carries."""
    cell = image.shape[1] // CODE_CELLS
    middle = image[CODE_ROWS // 2 - 1, cell // 2 : CODE_CELLS * cell : cell].mean(axis=1)
    return sum(1 << bit for bit, value in enumerate(middle) if value > 127)


def write_clip(
    path: Path,
    images: Sequence[Image],
    *,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    times_ms: Sequence[int] | None = None,
    fps: int = 10,
    options: dict[str, str] | None = None,
) -> Path:
    """Encode BGR images; with ``times_ms`` at those presentation times, else at ``fps``."""
    base = Fraction(1, 1000)
    encoding = {"preset": "ultrafast", "crf": "18"} if codec == "libx264" else {}
    with av.open(str(path), "w", options=options or {}) as container:
        stream = container.add_stream(codec, rate=fps, options=encoding)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = pixel_format
        stream.codec_context.time_base = base
        stream.codec_context.max_b_frames = 0
        stream.codec_context.thread_count = 1
        for index, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="bgr24").reformat(format=pixel_format)
            frame.pts = times_ms[index] if times_ms is not None else index * 1000 // fps
            frame.time_base = base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def write_audio(path: Path) -> Path:
    """A file that has sound and no picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        for index in range(8):
            frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), format="fltp", layout="stereo")
            frame.sample_rate, frame.pts = 44100, index * 1024
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def jpeg(image: Image, quality: int = 90) -> bytes:
    """One JPEG."""
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


def write_mjpeg_avi(path: Path, pictures: Sequence[bytes], width: int = 320, height: int = 240) -> Path:
    """Pack JPEGs as they are into an AVI."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuvj420p"
        for index, data in enumerate(pictures):
            packet = av.Packet(data)
            packet.stream = stream
            packet.pts = packet.dts = index
            packet.time_base = Fraction(1, 10)
            container.mux(packet)
    return path


def rotate_tag(path: Path, degrees: int) -> Path:
    """Set the display matrix in the track header of an MP4 to a rotation by 90, 180 or 270 degrees."""
    data = bytearray(path.read_bytes())
    header = data.index(b"tkhd")
    at = header + 4 + (40 if data[header + 4] == 0 else 52)
    one = 0x10000
    a, b, c, d = {90: (0, one, -one, 0), 180: (-one, 0, 0, -one), 270: (0, -one, one, 0)}[degrees]
    values = (a, b, 0, c, d, 0, 0, 0, 0x40000000)
    data[at : at + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in values)
    path.write_bytes(data)
    return path
