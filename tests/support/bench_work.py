"""Work for the benchmarks that needs no clip: one person walks through a grey scene."""

from pathlib import Path

import numpy as np

from foveate.bench.baseline_work import Work
from foveate.bench.playlist import Clip, Part, Playlist
from foveate.bench.service_times import ServiceTimes, Spread
from foveate.bench.streaming import Shown
from foveate.models.scoring import Truth
from pipeline.detections import Detections
from pipeline.geometry import Size

FPS = 10.0
SIZE = Size(640, 480)


def constant_times(edge_s: float = 0.01, cloud_s: float = 0.02) -> ServiceTimes:
    """Service times that never vary; the larger model takes the same for every picture."""
    edge, one = Spread((edge_s,)), Spread((1.0,))
    return ServiceTimes(Spread((0.001,)), edge, Spread((0.001,)), Spread((0.0,)), cloud_s, 0.0, one)


def person(seq: int, speed_px: float) -> np.ndarray:
    """Where the person is on a frame, (1, 4)."""
    left = 20.0 + speed_px * seq
    return np.array([[left, 100, left + 40, 200]], np.float32)


def walking(count: int, speed_px: float = 8.0, *, path: Path = Path("walk.mp4"), small_sees: bool = True) -> Work:
    """``count`` frames, on all of which the larger model is right, and the small one where it sees anything."""
    clip = Clip("walk", path, "person", FPS, h264_bytes_per_frame=5_000.0)
    shown, large, small, grey = [], [], [], []
    for seq in range(count):
        box = person(seq, speed_px)
        label = np.array(["person"])
        truth = Truth(box, label, np.zeros(1, bool))
        shown.append(Shown(clip, truth, truth, box))
        large.append(Detections.of(box, [0.9], label))
        small.append(Detections.of(box, [0.8], label) if small_sees else Detections.none())
        picture = np.full((SIZE.height // 4, SIZE.width // 4), 90, np.uint8)
        left = int(box[0, 0]) // 4
        picture[25:50, left : left + 10] = 200
        grey.append(picture)
    at_s = tuple(seq / FPS for seq in range(count))
    jpeg = (20_000,) * count
    playlist = Playlist("walk", (Part(clip, count),))
    return Work(
        playlist, at_s, tuple(shown), tuple(small), tuple(large), jpeg, tuple(grey), (SIZE,) * count, 5e3 * count
    )
