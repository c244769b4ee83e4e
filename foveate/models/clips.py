"""Frames of video files, for calibrating and judging models."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from pipeline.errors import SourceError
from pipeline.frames import Image


def sampled_frames(clip: Path, every: int) -> Iterator[tuple[int, Image]]:
    """Every ``every``-th frame of a clip with its number from 1. Raises SourceError where it has no frame."""
    capture = cv2.VideoCapture(str(clip), cv2.CAP_FFMPEG)
    try:
        number = 0
        while capture.grab():
            number += 1
            if (number - 1) % every:
                continue
            readable, image = capture.retrieve()
            if readable:
                yield number, np.asarray(image, dtype=np.uint8)
    finally:
        capture.release()
    if number == 0:
        raise SourceError(f"No frame can be read from {clip}: name a video file.")


def count_frames(clip: Path) -> int:
    """Frames of a clip, counted by reading it, as headers lie. Raises SourceError where it has none."""
    return sum(1 for _ in sampled_frames(clip, 1))


def content_hash(file: Path) -> str:
    """SHA-256 of a file, so that a copy under another name is recognised. Raises SourceError where it is absent."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise SourceError(f"Cannot read {file} ({error.strerror or error}): check the path.") from error
