"""The gate of one camera: is the frame due, is it worth a look, and where did something move?"""

from dataclasses import dataclass

import cv2
import numpy as np

from edge_agent.region_of_interest import RegionOfInterest, bind
from edge_agent.settings import CameraSettings
from pipeline.frames import Frame, Image
from pipeline.geometry import BoxArray, Size
from pipeline.policies.change import AdaptiveChange, ChangeDetector, NoChangeDetection
from pipeline.policies.sampler import TokenClock

BASELINE_EVERY = 10
"""One frame in so many is encoded whole, to know what sending every frame would cost."""
BASELINE_QUALITY = 80


@dataclass(frozen=True, slots=True, eq=False)
class Gated:
    """Whether to analyse a frame, why, and the motion boxes (n, 4) in frame pixels."""

    keep: bool
    reason: str
    motion: BoxArray


class Gate:
    """Made for frames of one size; ``look`` is made anew when the size changes."""

    def __init__(self, settings: CameraSettings) -> None:
        self._settings = settings
        self._sampler = TokenClock(settings.sample_fps)
        self._size: Size | None = None
        self._change: ChangeDetector | None = None
        self.region: RegionOfInterest | None = None

    def fit(self, size: Size) -> RegionOfInterest:
        """Bind region and masks to the frame size, if it is new. Raises RegionError where they do not fit."""
        if self.region is None or size != self._size:
            self.region = bind(self._settings.roi, self._settings.masks, size)
            kind = AdaptiveChange if self._settings.change_detection == "adaptive" else NoChangeDetection
            self._change = kind(self._settings.change, self.region.mask)
            self._size = size
        return self.region

    def due(self, scene_s: float) -> bool:
        """Whether the frame's turn has come."""
        return self._sampler.take(scene_s).due

    def look(self, image: Image, scene_s: float) -> Gated:
        """Change and motion on a frame that is due; CPU work. ``fit`` comes first."""
        if self._change is None:
            raise RuntimeError("fit() was not called before look()")
        decision = self._change.look(image, scene_s)
        return Gated(decision.keep, decision.reason, decision.motion)


def jpeg(image: Image, quality: int) -> bytes:
    """Encode a picture (height, width, 3) uint8 BGR."""
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise ValueError(f"a picture of shape {image.shape} cannot be encoded as JPEG")
    return np.asarray(data).tobytes()


def baseline_bytes(frame: Frame) -> int:
    """The size of the whole frame as JPEG, the baseline that savings are held against."""
    return len(jpeg(frame.image, BASELINE_QUALITY))
