"""The gate of one camera: is the frame due, is it worth a look, and where did something move?"""

from collections import deque
from dataclasses import dataclass

import cv2
import numpy as np

from edge_agent.region_of_interest import RegionOfInterest, bind
from edge_agent.settings import CameraSettings
from edge_agent.tidings import correction, tidings
from edge_agent.tracking.history import Entry
from edge_agent.tracking.tracks import predict
from pipeline.detections import Detections
from pipeline.frames import Frame, Image
from pipeline.geometry import BoxArray, Size
from pipeline.policies.change import NOTHING_EXPECTED, AdaptiveChange, ChangeDetector, Expected, NoChangeDetection
from pipeline.policies.keep import KeepMemory, News
from pipeline.policies.sampler import AdaptiveRate, RateSettings, TokenClock

BASELINE_EVERY = 10
"""One frame in so many is encoded whole, to know what sending every frame would cost."""
BASELINE_QUALITY = 80


@dataclass(frozen=True, slots=True, eq=False)
class Gated:
    """Whether to analyse a frame, why, and the motion boxes (n, 4) in frame pixels."""

    keep: bool
    reason: str
    motion: BoxArray


_AWAITED_TIDINGS = 16
"""Analysed frames that the next look still has to take in; older ones give way."""


class Gate:
    """Made for frames of one size; ``look`` is made anew when the size changes.

    ``look`` runs on another thread than what brings it news, which waits for the next look.
    """

    def __init__(self, settings: CameraSettings) -> None:
        self._settings = settings
        self._sampler = TokenClock(settings.sample_fps)
        self._rate: AdaptiveRate | None = None
        if settings.sampling == "adaptive":
            self._rate = AdaptiveRate(RateSettings(settings.sample_fps, settings.sample_fps_least))
        self._size: Size | None = None
        self._change: ChangeDetector | None = None
        self._heard: deque[tuple[float, News]] = deque(maxlen=_AWAITED_TIDINGS)
        self._last: Entry | None = None
        self._memory: KeepMemory | None = None
        self.region: RegionOfInterest | None = None

    def fit(self, size: Size) -> RegionOfInterest:
        """Bind region and masks to the frame size, if it is new. Raises RegionError where they do not fit."""
        if self.region is None or size != self._size:
            self.region = bind(self._settings.roi, self._settings.masks, size)
            before = self.memory
            kind = AdaptiveChange if self._settings.change_detection == "adaptive" else NoChangeDetection
            self._change = kind(self._settings.change, self.region.mask)
            self._size, self._last = size, None
            if before is not None:
                self._change.recall(before)
        return self.region

    @property
    def memory(self) -> KeepMemory | None:
        """What was learned of the scene's changes, which are shares of the picture; None where nothing is."""
        return self._memory if self._change is None else self._change.memory

    def recall(self, memory: KeepMemory) -> None:
        """Go on from what was learned before; ahead of the first frame."""
        self._memory = memory

    def due(self, scene_s: float, most_fps: float | None = None) -> bool:
        """Whether the frame's turn has come, at no more than ``most_fps`` frames per second."""
        return self._sampler.take(scene_s, most_fps).due

    def look(self, image: Image, scene_s: float) -> Gated:
        """Change and motion on a frame that is due; CPU work. ``fit`` comes first."""
        change = self._change
        if change is None:
            raise RuntimeError("fit() was not called before look()")
        while self._heard:
            change.learn(*self._heard.popleft())
        decision = change.look(image, scene_s, self._expected(scene_s))
        return Gated(decision.keep, decision.reason, decision.motion)

    def tracks(self, entry: Entry) -> None:
        """Hear what the analysis of a frame that was kept has shown."""
        last = self._last if self._last is not None and self._last.at_s < entry.at_s else None
        told = tidings(entry, last, self._settings.tracker)
        self._heard.append((entry.at_s, told.news))
        if self._rate is not None:
            self._rate.observe(told.speed_widths_s, told.births, entry.at_s)
        self._last = entry

    def tracks_of_cloud(self, entry: Entry) -> None:
        """Hear the same of a frame that only the cloud has looked at; its answers may come in another order."""
        if self._last is None or entry.at_s > self._last.at_s:
            self.tracks(entry)

    def corrected(self, at_s: float, before: Detections, after: Detections) -> None:
        """Hear what the cloud has changed on the frame of scene time ``at_s``; that, too, made it worth a look."""
        news = correction(before, after)
        if news.elsewhere or news.tracked:
            self._heard.append((at_s, news))

    def _expected(self, scene_s: float) -> Expected:
        last = self._last
        heard_within_s = self._settings.change.max_gap_s + self._settings.tracker.forget_s
        if last is None or not 0 <= scene_s - last.at_s <= heard_within_s:
            return NOTHING_EXPECTED
        places = predict(last.after.tracks, scene_s, self._settings.tracker).boxes.xyxy
        return Expected(places, 0.0 if self._rate is None else 1.0 / self._rate.rate_fps)


def jpeg(image: Image, quality: int) -> bytes:
    """Encode a picture (height, width, 3) uint8 BGR."""
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise ValueError(f"a picture of shape {image.shape} cannot be encoded as JPEG")
    return np.asarray(data).tobytes()


def baseline_bytes(frame: Frame) -> int:
    """The size of the whole frame as JPEG, the baseline that savings are held against."""
    return len(jpeg(frame.image, BASELINE_QUALITY))
