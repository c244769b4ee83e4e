"""Is this frame worth a look, and where did something move?

Both questions are asked of a small grey picture. *Motion* is the difference to a slowly learned background; *change*
the difference to the last frame that was kept, so that slow movement adds up until it shows. The threshold follows the
picture's own noise, and a common gain of all grey values (exposure, a cloud before the sun) is taken out first.
When most of the picture changes at once the background is learned anew, and for a second no motion is claimed. Where
the scene is hardly ever idle the difference has nothing to tell, and sampling stays uniform (why: static thresholds do
not transfer between cameras; Li et al., Reducto, SIGCOMM 2020, section 3).
"""

from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size

Grey = NDArray[np.uint8]
"""A small blurred grey picture (height, width) uint8."""


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Settings of change detection.

    ``height_px`` of the small picture. ``least_levels`` and ``noise_factor``: a pixel has changed when it differs by
    more than the greater of the two (grey levels; multiples of the noise), and always by ``most_levels``, so that
    flicker never hides a strong contrast. ``least_area`` is the share of the picture that one moving thing must cover.
    A frame is kept at the latest after ``max_gap_s``. Above ``global_share`` of changed pixels the scene itself has
    changed. With less than ``idle_share`` of idle frames sampling is uniform.
    """

    height_px: int = 144
    least_levels: float = 10.0
    noise_factor: float = 6.0
    most_levels: float = 40.0
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


@dataclass(frozen=True, slots=True, eq=False)
class _Field:
    """Where to look on the small picture: a 0/255 mask, how many pixels it lets through, a sparse sample of them."""

    mask: Grey
    pixels: int
    sample: NDArray[np.intp]

    @classmethod
    def of(cls, mask: Grey) -> "_Field":
        grid = np.zeros(mask.shape, bool)
        grid[::4, ::4] = True
        inside = mask > 0
        sparse = np.flatnonzero(inside & grid)
        sample = sparse if len(sparse) >= _LEAST_SAMPLE else np.flatnonzero(inside)
        return cls(mask, int(np.count_nonzero(inside)), sample)


@dataclass(slots=True)
class _Memory:
    """What the detector remembers: the learned background, the last kept frame, and until when the scene settles."""

    background: NDArray[np.float32]
    kept: Grey
    kept_at_s: float
    settles_at_s: float


_SETTLE_S = 1.0
"""Switches of exposure or to infrared take several frames; until they are over the background follows each frame."""
_LEAST_SAMPLE = 256
_LEAST_LIT_LEVELS = 16
"""Pixels darker than this say nothing about a gain."""


class AdaptiveChange:
    """The change detector described at the top of the module.

    ``mask`` (height, width) uint8 of any size, 0 where nothing is to be noticed; None looks everywhere.
    """

    def __init__(self, settings: ChangeSettings, mask: NDArray[np.uint8] | None = None) -> None:
        self._settings = settings
        self._full_mask = mask
        self._memory: _Memory | None = None
        self._field = _Field.of(np.empty((0, 0), np.uint8))
        self._noise_levels, self._noise_samples = 1.0, 0
        self._idle = 0.5

    def look(self, image: Image, at_s: float) -> ChangeDecision:
        grey = self._shrink(image)
        memory = self._memory
        if memory is None or memory.kept.shape != grey.shape:
            self._field = self._field_for(grey.shape)
            self._memory = _started(grey, at_s)
            return ChangeDecision(keep=True, reason="first", motion=NO_BOXES)
        since_kept = self._difference(grey, memory.kept)
        self._learn_noise(since_kept)
        moving = self._beyond_noise(self._difference(grey, memory.background))
        if cv2.countNonZero(moving) > self._settings.global_share * self._field.pixels:
            self._memory = _started(grey, at_s, settles_at_s=at_s + _SETTLE_S)
            return ChangeDecision(keep=True, reason="scene_changed", motion=NO_BOXES)
        if at_s < memory.settles_at_s:
            memory.background, moving = grey.astype(np.float32), np.zeros_like(moving)
        motion = self._boxes(moving, Size(image.shape[1], image.shape[0]))
        changed = self._largest(self._beyond_noise(since_kept)) >= self._settings.least_area
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

    def _field_for(self, shape: tuple[int, ...]) -> _Field:
        mask = np.full(shape, 255, np.uint8)
        if self._full_mask is not None:
            small = cv2.resize(self._full_mask, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST)
            mask[small == 0] = 0
        return _Field.of(mask)

    def _shrink(self, image: Image) -> Grey:
        height = min(self._settings.height_px, image.shape[0])
        width = max(1, round(image.shape[1] * height / image.shape[0]))
        # Halving is many times cheaper than averaging over a large or odd ratio at once.
        while image.shape[0] >= 2 * height and image.shape[1] >= 2 * width:
            half = (image.shape[1] // 2, image.shape[0] // 2)
            image = np.asarray(cv2.resize(image, half, interpolation=cv2.INTER_AREA), np.uint8)
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
        return np.asarray(cv2.GaussianBlur(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY), (5, 5), 0), np.uint8)

    def _expected(self, grey: Grey, reference: Grey | NDArray[np.float32]) -> Grey:
        """The reference as it would look under the present exposure: one gain for all, never beyond white."""
        now, then = grey.ravel()[self._field.sample], reference.ravel()[self._field.sample]
        lit = then >= _LEAST_LIT_LEVELS
        gain = _median(now[lit] / then[lit]) if np.count_nonzero(lit) * 2 >= len(lit) > 0 else 1.0
        return np.asarray(cv2.convertScaleAbs(reference, alpha=gain), np.uint8)

    def _difference(self, grey: Grey, reference: Grey | NDArray[np.float32]) -> Grey:
        return np.asarray(cv2.absdiff(grey, self._expected(grey, reference)), np.uint8)

    def _learn_noise(self, since_kept: Grey) -> None:
        """Robust noise of the small picture in grey levels: most pixels have not moved since the last kept frame."""
        noise = max(_median(since_kept.ravel()[self._field.sample]) / 0.6745, 0.5)
        self._noise_samples += 1
        self._noise_levels += max(0.1, 1 / self._noise_samples) * (noise - self._noise_levels)

    def _beyond_noise(self, difference: Grey) -> Grey:
        """Mask (255: beyond the threshold, and not masked)."""
        s = self._settings
        threshold = min(max(s.least_levels, s.noise_factor * self._noise_levels), s.most_levels)
        beyond = cv2.threshold(difference, threshold, 255, cv2.THRESH_BINARY)[1]
        return np.asarray(cv2.bitwise_and(beyond, self._field.mask), np.uint8)

    def _learn_background(self, grey: Grey, moving: Grey, memory: _Memory) -> None:
        cv2.accumulateWeighted(grey, memory.background, self._settings.learn_rate, cv2.bitwise_not(moving))
        cv2.accumulateWeighted(grey, memory.background, self._settings.learn_rate_moving, moving)

    def _largest(self, mask: Grey) -> float:
        """Share of the picture that the largest connected change covers."""
        return float(_components(mask)[:, cv2.CC_STAT_AREA].max(initial=0)) / mask.size

    def _boxes(self, mask: Grey, size: Size) -> BoxArray:
        """Boxes around moving things, in frame pixels, largest first."""
        rows = _components(np.asarray(cv2.dilate(mask, np.ones((5, 5), np.uint8)), np.uint8))
        rows = rows[rows[:, cv2.CC_STAT_AREA] >= 4 * self._settings.least_area * mask.size]
        rows = rows[np.argsort(-rows[:, cv2.CC_STAT_AREA])]
        boxes = np.stack([rows[:, 0], rows[:, 1], rows[:, 0] + rows[:, 2], rows[:, 1] + rows[:, 3]], axis=1)
        zoom = np.array([size.width / mask.shape[1], size.height / mask.shape[0]] * 2)
        return np.asarray(boxes * zoom, dtype=np.float32)


def _started(grey: Grey, at_s: float, settles_at_s: float = float("-inf")) -> _Memory:
    return _Memory(grey.astype(np.float32), grey, at_s, settles_at_s)


def _median(values: NDArray[Any]) -> float:
    """The (upper) median; 0 without values."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle]) if len(values) else 0.0


def _components(mask: Grey) -> NDArray[np.int32]:
    """Left, top, width, height, area (n, 5) of the connected parts of a mask."""
    _, _, stats, _ = cv2.connectedComponentsWithStatsWithAlgorithm(mask, 8, cv2.CV_32S, cv2.CCL_BBDT)
    return np.asarray(stats[1:], np.int32)


class NoChangeDetection:
    """Keeps every sampled frame; motion boxes come from the adaptive detector all the same."""

    def __init__(self, settings: ChangeSettings, mask: NDArray[np.uint8] | None = None) -> None:
        self._motion = AdaptiveChange(settings, mask)

    def look(self, image: Image, at_s: float) -> ChangeDecision:
        return ChangeDecision(keep=True, reason="uniform", motion=self._motion.look(image, at_s).motion)
