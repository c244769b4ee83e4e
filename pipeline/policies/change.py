"""Is this frame worth a look, and where did something move?

Both questions are asked of a small grey picture. *Motion* is the difference to a slowly learned background; *change*
the difference to the last frame that was kept, so that slow movement adds up until it shows. The threshold follows the
picture's own noise, and a shift of all grey values together (exposure, a cloud before the sun) is taken out first.
When most of the picture changes at once the background is learned anew and no motion is claimed. Where the scene is
hardly ever idle the difference has nothing to tell, and sampling stays uniform (why: static thresholds do not
transfer between cameras; Li et al., Reducto, SIGCOMM 2020, section 3).
"""

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size

Grey = NDArray[np.float32]
"""A blurred grey picture (height, width) float32."""


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Settings of change detection.

    ``height_px`` of the small picture. ``least_levels`` and ``noise_factor``: a pixel has changed when it differs by
    more than the greater of the two (grey levels; multiples of the noise). ``least_area`` is the share of the picture
    that one moving thing must cover. A frame is kept at the latest after ``max_gap_s``. Above ``global_share`` of
    changed pixels the scene itself has changed. With less than ``idle_share`` of idle frames sampling is uniform.
    """

    height_px: int = 144
    least_levels: float = 10.0
    noise_factor: float = 6.0
    least_area: float = 0.0004
    max_gap_s: float = 1.0
    global_share: float = 0.5
    idle_share: float = 0.1
    learn_rate: float = 0.05
    learn_rate_moving: float = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class ChangeDecision:
    """Whether to keep the frame, why, and the motion boxes (n, 4) ``xyxy`` in frame pixels, largest first."""

    keep: bool
    reason: str
    motion: BoxArray


class ChangeDetector(Protocol):
    """Looks at every sampled frame, in order."""

    def look(self, image: Image, at_s: float) -> ChangeDecision:
        """Decide on one frame: ``image`` is (height, width, 3) uint8 BGR, ``at_s`` its scene time."""
        ...


NO_BOXES: BoxArray = np.empty((0, 4), np.float32)


@dataclass(slots=True)
class _Memory:
    """What the detector remembers: learned background, last frame, last kept frame."""

    background: Grey
    previous: Grey
    kept: Grey
    kept_at_s: float


class AdaptiveChange:
    """The change detector described at the top of the module.

    ``mask`` (height, width) uint8 of any size, 0 where nothing is to be noticed; None looks everywhere.
    """

    def __init__(self, settings: ChangeSettings, mask: NDArray[np.uint8] | None = None) -> None:
        self._settings = settings
        self._full_mask = mask
        self._mask: NDArray[np.uint8] | None = None
        self._memory: _Memory | None = None
        self._noise_levels = 1.0
        self._idle = 0.5

    def look(self, image: Image, at_s: float) -> ChangeDecision:
        grey = self._shrink(image)
        memory = self._memory
        if memory is None or memory.background.shape != grey.shape:
            self._restart(grey, at_s)
            return ChangeDecision(keep=True, reason="first", motion=NO_BOXES)
        self._learn_noise(grey, memory)
        moving = self._differs(grey, memory.background)
        if moving.mean() > self._settings.global_share * 255:
            self._restart(grey, at_s)
            return ChangeDecision(keep=True, reason="scene_changed", motion=NO_BOXES)
        motion = self._boxes(moving, Size(image.shape[1], image.shape[0]))
        changed = self._largest(self._differs(grey, memory.kept)) >= self._settings.least_area
        self._learn_background(grey, moving, memory)
        self._idle += 0.02 * ((0.0 if changed else 1.0) - self._idle)
        reason = self._reason(changed, at_s - memory.kept_at_s)
        if reason:
            memory.kept, memory.kept_at_s = grey, at_s
        return ChangeDecision(keep=bool(reason), reason=reason or "unchanged", motion=motion)

    def _reason(self, changed: bool, gap_s: float) -> str:
        if changed:
            return "changed"
        if gap_s >= self._settings.max_gap_s - 1e-6 or gap_s < 0:
            return "max_gap"
        if self._idle < self._settings.idle_share:
            return "never_idle"
        return ""

    def _restart(self, grey: Grey, at_s: float) -> None:
        self._memory = _Memory(grey.copy(), grey, grey, at_s)
        if self._full_mask is not None:
            shape = (grey.shape[1], grey.shape[0])
            self._mask = np.asarray(cv2.resize(self._full_mask, shape, interpolation=cv2.INTER_NEAREST), np.uint8)

    def _shrink(self, image: Image) -> Grey:
        height = min(self._settings.height_px, image.shape[0])
        width = max(1, round(image.shape[1] * height / image.shape[0]))
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
        grey = cv2.cvtColor(small, cv2.COLOR_BGR2GRAY)
        return np.asarray(cv2.GaussianBlur(grey, (5, 5), 0), dtype=np.float32)

    def _learn_noise(self, grey: Grey, memory: _Memory) -> None:
        """Robust noise of the blurred picture in grey levels: most pixels do not move between two frames."""
        step = np.abs(grey[::3, ::3] - memory.previous[::3, ::3])
        noise = max(float(np.median(step)) / 0.6745, 0.5)
        self._noise_levels += 0.1 * (noise - self._noise_levels)
        memory.previous = grey

    def _differs(self, grey: Grey, reference: Grey) -> NDArray[np.uint8]:
        """Mask (255: differs) after the common shift of brightness is taken out."""
        shift = float(np.median(grey[::4, ::4] - reference[::4, ::4]))
        threshold = max(self._settings.least_levels, self._settings.noise_factor * self._noise_levels)
        difference = cv2.absdiff(grey, reference + np.float32(shift))
        mask = np.asarray(cv2.threshold(difference, threshold, 255, cv2.THRESH_BINARY)[1], np.uint8)
        if self._mask is not None:
            mask &= np.where(self._mask > 0, np.uint8(255), np.uint8(0))
        return mask

    def _learn_background(self, grey: Grey, moving: NDArray[np.uint8], memory: _Memory) -> None:
        rate = np.where(moving > 0, self._settings.learn_rate_moving, self._settings.learn_rate)
        memory.background += rate.astype(np.float32) * (grey - memory.background)

    def _largest(self, mask: NDArray[np.uint8]) -> float:
        """Share of the picture that the largest connected change covers."""
        count, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        return float(stats[1:, cv2.CC_STAT_AREA].max()) / mask.size if count > 1 else 0.0

    def _boxes(self, mask: NDArray[np.uint8], size: Size) -> BoxArray:
        """Boxes around moving things, in frame pixels, largest first."""
        joined = cv2.dilate(mask, np.ones((3, 3), np.uint8), iterations=2)
        _, _, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
        rows = stats[1:]
        rows = rows[rows[:, cv2.CC_STAT_AREA] >= 4 * self._settings.least_area * mask.size]
        rows = rows[np.argsort(-rows[:, cv2.CC_STAT_AREA])]
        boxes = np.stack([rows[:, 0], rows[:, 1], rows[:, 0] + rows[:, 2], rows[:, 1] + rows[:, 3]], axis=1)
        zoom = np.array([size.width / mask.shape[1], size.height / mask.shape[0]] * 2)
        return np.asarray(boxes * zoom, dtype=np.float32)


class NoChangeDetection:
    """Keeps every sampled frame; motion boxes come from the adaptive detector all the same."""

    def __init__(self, settings: ChangeSettings, mask: NDArray[np.uint8] | None = None) -> None:
        self._motion = AdaptiveChange(settings, mask)

    def look(self, image: Image, at_s: float) -> ChangeDecision:
        return ChangeDecision(keep=True, reason="uniform", motion=self._motion.look(image, at_s).motion)
