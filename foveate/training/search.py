"""Which network fits into the time that a picture may take on this machine: measured, on files yet untrained.

What a network computes does not depend on its weights, so each candidate is exported as it is born and timed as the
edge will use it: on one thread, whole pictures in, detections out. Time is what buys accuracy, so the one that takes
the most of what is allowed is trained.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foveate.training.export import entry, write
from foveate.training.network import COARSEST_PX, Student, StudentShape
from pipeline.detectors.contract import HeightWidth
from pipeline.detectors.loading import load_file
from pipeline.errors import ModelError
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.timing import Clock

LONG_SIDES_PX = (384, 320, 256, 208, 160)
USUAL_LONG_SIDE_PX = 256
WIDTHS = (1.5, 1.0, 0.5)
WARM_UP, RUNS = 3, 15
MIN_SCORE = 0.3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A network that may be trained: its input (height, width) in pixels, its width, and its time per picture."""

    input_px: HeightWidth
    width: float
    ms: float


def input_size(picture: Size, long_side_px: int) -> HeightWidth:
    """The input (height, width) in a picture's proportion, in whole steps of the coarsest stride."""
    scale = long_side_px / max(picture.width, picture.height)
    height, width = (
        max(1, round(side * scale / COARSEST_PX)) * COARSEST_PX for side in (picture.height, picture.width)
    )
    return height, width


def usual(picture: Size) -> HeightWidth:
    """The input where nothing is asked about time, no larger than the picture needs."""
    return input_size(picture, min(USUAL_LONG_SIDE_PX, max(picture.width, picture.height)))


def sizes(picture: Size) -> list[HeightWidth]:
    """Inputs worth trying, largest first: beyond the lessons' own pixels there is nothing to see."""
    most = max(picture.width, picture.height) + COARSEST_PX // 2
    found = [input_size(picture, side) for side in LONG_SIDES_PX if side <= most]
    return list(dict.fromkeys(found)) or [usual(picture)]


def search(candidates: Sequence[Candidate], most_ms: float) -> Candidate:
    """The slowest candidate within the limit. Raises ModelError where even the fastest takes longer."""
    fitting = [candidate for candidate in candidates if candidate.ms <= most_ms]
    if not fitting:
        fastest = min(candidates, key=lambda candidate: candidate.ms)
        raise ModelError(
            f"No network of a camera's own takes at most {most_ms:g} ms per picture on this machine: the fastest takes "
            f"{fastest.ms:.2f} ms at {fastest.input_px[0]}x{fastest.input_px[1]}; allow more time."
        )
    return max(fitting, key=lambda candidate: candidate.ms)


def measure(picture: Size, frame: Size, labels: Sequence[str], clock: Clock) -> list[Candidate]:
    """Time every candidate for lessons of the size ``picture`` on frames of the size ``frame``."""
    image = np.full((frame.height, frame.width, 3), 127, np.uint8)
    return [
        Candidate(size, width, time_ms(Student(StudentShape(len(labels), width)), labels, size, image, clock))
        for size in sizes(picture)
        for width in WIDTHS
    ]


def time_ms(student: Student, labels: Sequence[str], input_px: HeightWidth, image: Image, clock: Clock) -> float:
    """The median time of a detection in one picture on one thread, exported to a file that is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "student.onnx"
        write(student.eval(), labels, path)
        contract = entry(path, "search", labels, input_px, "untrained")
        detector = load_file(path, contract, label_file=None, input_size=input_px, threads=1)
    return median_ms(lambda: detector.detect([image], MIN_SCORE), clock)


def median_ms(work: Callable[[], object], clock: Clock) -> float:
    """The median time of some work in milliseconds, after it was done a few times."""
    times_s: list[float] = []
    for run in range(WARM_UP + RUNS):
        begun_s = clock.now_s()
        work()
        if run >= WARM_UP:
            times_s.append(clock.now_s() - begun_s)
    return statistics.median(times_s) * 1000
