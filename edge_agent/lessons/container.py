"""A lesson as bytes: a header with its annotation and what is remembered of it, and its picture as JPEG.

``FVL1``, the length of the header, the CRC-32 of all that follows it (both 4 bytes, big-endian), the header as
MessagePack, the JPEG. A file that a power cut left half written is told by its checksum.
"""

import zlib
from datetime import datetime

import cv2
import msgspec
import numpy as np

from edge_agent.gate import jpeg
from edge_agent.lessons.lesson import Conditions, Lesson
from edge_agent.lessons.settings import Privacy
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.lesson_marks import Condition, Content, Light, Mark, Spot

QUALITY = 92
MOST_BYTES = 16_000_000
_MAGIC = b"FVL1"
_PREFIX = len(_MAGIC) + 8


class LessonError(ValueError):
    """Bytes that are no lesson; the message says why, without a subject."""


class Header(msgspec.Struct, frozen=True, array_like=True):
    """All of a lesson but its pixels. ``known`` are (box, score, label, source, track), boxes in picture pixels;
    ``look`` and ``spots`` are those of its mark. ``privacy`` is what was promised when it was taken.
    """

    camera: str
    taken_at: datetime
    window: tuple[int, int]
    known: list[tuple[tuple[float, float, float, float], float, str, str, int]]
    ignored: list[tuple[float, float, float, float]]
    teacher: str
    edge: str
    hour: int
    brightness: float
    contrast: float
    coloured: bool
    light: Light
    content: Content
    spots: list[tuple[str, int, int, int, int]]
    look: bytes
    privacy: Privacy

    def mark(self, name: str, size_bytes: int) -> Mark:
        """What is remembered of the lesson in the file of this name and size."""
        condition = Condition(self.hour, self.light, self.content)
        spots = tuple(Spot(*spot) for spot in self.spots)
        return Mark(name, self.taken_at.timestamp(), size_bytes, condition, spots, self.look)


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Header)


def encode(lesson: Lesson, mark: Mark, privacy: Privacy) -> bytes:
    """A lesson as the content of a file. CPU work."""
    known, conditions = lesson.known, lesson.conditions
    rows = zip(known.xyxy, known.score, known.label, known.source, known.track_id, strict=True)
    header = Header(
        camera=lesson.camera,
        taken_at=lesson.taken_at,
        window=(lesson.window.width, lesson.window.height),
        known=[(_box(box), float(score), str(label), str(src), int(track)) for box, score, label, src, track in rows],
        ignored=[_box(box) for box in lesson.ignored],
        teacher=lesson.teacher,
        edge=lesson.edge,
        hour=conditions.hour,
        brightness=conditions.brightness,
        contrast=conditions.contrast,
        coloured=conditions.coloured,
        light=mark.condition.light,
        content=mark.condition.content,
        spots=[(spot.label, spot.x, spot.y, spot.size, spot.track) for spot in mark.spots],
        look=mark.look,
        privacy=privacy,
    )
    head = _encoder.encode(header)
    body = head + jpeg(lesson.picture, QUALITY)
    return _MAGIC + len(head).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def header_of(data: bytes) -> Header:
    """The header of a file's whole content. Raises LessonError where the content is not what was written."""
    return _parts(data)[0]


def decode(data: bytes) -> tuple[Lesson, Header]:
    """The lesson that ``encode`` was given, its picture as JPEG shows it. Raises LessonError. CPU work."""
    header, picture_bytes = _parts(data)
    picture = cv2.imdecode(np.frombuffer(picture_bytes, np.uint8), cv2.IMREAD_COLOR) if picture_bytes else None
    if picture is None:
        raise LessonError("has a picture that cannot be decoded")
    image: Image = np.asarray(picture, np.uint8)
    rows = header.known
    known = Detections(
        np.array([row[0] for row in rows], np.float32).reshape(-1, 4),
        np.array([row[1] for row in rows], np.float32),
        np.array([row[2] for row in rows], np.str_),
        np.array([row[3] for row in rows], np.str_),
        np.array([row[4] for row in rows], np.int64),
    )
    lesson = Lesson(
        camera=header.camera,
        taken_at=header.taken_at,
        picture=image,
        window=Size(*header.window),
        known=known,
        ignored=np.array(header.ignored, np.float32).reshape(-1, 4),
        teacher=header.teacher,
        edge=header.edge,
        conditions=Conditions(header.hour, header.brightness, header.contrast, header.coloured),
    )
    return lesson, header


def _parts(data: bytes) -> tuple[Header, bytes]:
    if len(data) > MOST_BYTES:
        raise LessonError(f"has more than {MOST_BYTES} bytes")
    if len(data) < _PREFIX or data[: len(_MAGIC)] != _MAGIC:
        raise LessonError("does not begin as a lesson")
    length, checksum = (int.from_bytes(data[at : at + 4], "big") for at in (len(_MAGIC), len(_MAGIC) + 4))
    body = data[_PREFIX:]
    if zlib.crc32(body) != checksum:
        raise LessonError("is damaged, or was not written to its end")
    try:
        header = _decoder.decode(body[:length])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LessonError(f"has a header that cannot be read ({error})") from error
    return header, body[length:]


def _box(box: object) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = (float(v) for v in np.asarray(box))
    return x1, y1, x2, y2
