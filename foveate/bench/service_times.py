"""How long each piece of work takes on this machine, measured once and drawn from on virtual time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

import numpy as np

from cloud_worker.model_runner import decode_jpeg
from edge_agent.frame_work import draw, look
from edge_agent.gate import Gate
from edge_agent.settings import CameraSettings
from foveate.bench.reference import frames
from pipeline.detectors.base import Detector
from pipeline.frames import Frame, FrameKey, Image
from pipeline.policies.offload import Candidate, OffloadDecision, Why
from pipeline.timing import Clock

T = TypeVar("T")
MEASURED_FRAMES = 60
WARM_FRAMES = 5
SIZES_PX = ((96, 192), (160, 320), (224, 416), (320, 576), (416, 576))
"""Pictures (height, width) on which the larger model is timed."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A measured duration: all samples in seconds, drawn from with equal chance."""

    samples_s: tuple[float, ...]

    def draw_s(self, rng: Random) -> float:
        return rng.choice(self.samples_s)

    @property
    def median_s(self) -> float:
        return float(np.median(self.samples_s))


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """Durations of the gate, the small model, drawing with JPEG, decoding, and the larger model by pixels.

    The larger model takes ``cloud_fixed_s`` plus ``cloud_pixel_s`` per pixel, times a ratio out of ``cloud_ratio``.
    """

    gate: Spread
    edge: Spread
    draw: Spread
    decode: Spread
    cloud_fixed_s: float
    cloud_pixel_s: float
    cloud_ratio: Spread

    def cloud_s(self, pixels: int, rng: Random) -> float:
        """One run of the larger model on one picture."""
        return (self.cloud_fixed_s + self.cloud_pixel_s * pixels) * self.cloud_ratio.draw_s(rng)

    def as_ms(self) -> dict[str, float]:
        """Medians for people; ``cloud`` of a whole frame."""
        whole = SIZES_PX[-1][0] * SIZES_PX[-1][1]
        parts = {"gate": self.gate, "edge": self.edge, "draw": self.draw, "decode": self.decode}
        cloud_ms = (self.cloud_fixed_s + self.cloud_pixel_s * whole) * self.cloud_ratio.median_s * 1e3
        return {name: round(part.median_s * 1e3, 2) for name, part in parts.items()} | {"cloud": round(cloud_ms, 2)}


def measure_times(clip: Path, settings: CameraSettings, small: Detector, large: Detector, clock: Clock) -> ServiceTimes:
    """Time the product's own work on the first frames of a clip, one piece after another, on one thread."""
    gate, edge, drawn, decoded = (list[float]() for _ in range(4))
    cloud: list[tuple[int, float]] = []
    door = Gate(settings)
    for number, image in zip(range(MEASURED_FRAMES + WARM_FRAMES), frames(clip), strict=False):
        frame = Frame(FrameKey(settings.name, 0, number), image, 0.0, None)
        region = door.fit(frame.size)
        _, gate_s = _timed(lambda image=image, number=number: door.look(image, number / 5), clock)  # type: ignore[misc]
        found, edge_s = _timed(lambda frame=frame, region=region: look(small, frame, settings, region), clock)  # type: ignore[misc]
        places = tuple(Candidate(_box(row), Why.UNCERTAIN, 0.5) for row in found.xyxy[:8].tolist())
        decision = OffloadDecision("mosaic" if places else "frame", "timing", places)
        (layout, data), draw_s = _timed(lambda f=frame, d=decision: draw(f, d, settings), clock)  # type: ignore[misc]
        _, decode_s = _timed(lambda data=data, size=layout.size: decode_jpeg(memoryview(data), size), clock)  # type: ignore[misc]
        picture = _cut(image, SIZES_PX[number % len(SIZES_PX)])
        _, cloud_s = _timed(lambda picture=picture: large.detect([picture], 0.5), clock)  # type: ignore[misc]
        if number >= WARM_FRAMES:
            for samples, value in ((gate, gate_s), (edge, edge_s), (drawn, draw_s), (decoded, decode_s)):
                samples.append(value)
            cloud.append((picture.shape[0] * picture.shape[1], cloud_s))
    pixel_s, fixed_s = np.polyfit([pixels for pixels, _ in cloud], [s for _, s in cloud], 1)
    fixed_s, pixel_s = max(0.0, float(fixed_s)), max(0.0, float(pixel_s))
    ratios = Spread(tuple(s / (fixed_s + pixel_s * pixels) for pixels, s in cloud))
    return ServiceTimes(_spread(gate), _spread(edge), _spread(drawn), _spread(decoded), fixed_s, pixel_s, ratios)


def _spread(samples: Sequence[float]) -> Spread:
    return Spread(tuple(samples))


def _box(row: Sequence[float]) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = row
    return x1, y1, x2, y2


def _cut(image: Image, size: tuple[int, int]) -> Image:
    """The top left corner of a picture, (height, width), as far as it goes."""
    return np.ascontiguousarray(image[: size[0], : size[1]])


def _timed(call: Callable[[], T], clock: Clock) -> tuple[T, float]:
    started_s = clock.now_s()
    result = call()
    return result, clock.now_s() - started_s
