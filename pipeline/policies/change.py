"""Is this frame worth a look, and where did something move?

Both questions are asked of a small grey picture. *Motion* is the difference to a slowly learned background; *change*
the difference to the last frame that was kept, so that slow movement adds up until it shows. The threshold per pixel
follows the picture's own noise; how large a change must be is learned from what the looks have shown (``keep.py``,
``worth.py``). A common gain of all grey values (exposure, a cloud before the sun) is taken out first, what moves for
ever stops counting (``busy.py``), and while changes come from everywhere no motion is claimed (``storm.py``). When most
of the picture changes at once the background is learned anew.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size, intersection, iou
from pipeline.policies.busy import BusyCells
from pipeline.policies.keep import Change, KeepMemory, KeepRule, KeepSettings, News
from pipeline.policies.small_picture import Field, Grey, boxes_of, difference, parts, shrink
from pipeline.policies.storm import StormWatch

NO_BOXES: BoxArray = np.empty((0, 4), np.float32)


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Settings of change detection.

    ``height_px`` of the small picture. ``least_levels`` and ``noise_factor``: a pixel has changed when it differs by
    more than the greater of the two (grey levels; multiples of the noise), and always by ``most_levels``, so that
    flicker never hides a strong contrast. ``least_area`` is the share of the picture that one moving thing must cover;
    with ``learn`` that is where learning starts from. A frame is kept at the latest after ``max_gap_s``, and the share
    ``audit_share`` of those that would be left out is kept to learn from. Above ``global_share`` of changed pixels the
    scene itself has changed. With less than ``idle_share`` of idle frames sampling is uniform. In a storm of changes
    ``storm_fps`` frames per second are kept.
    """

    height_px: int = 144
    least_levels: float = 10.0
    noise_factor: float = 6.0
    most_levels: float = 40.0
    least_area: float = 0.0004
    learn: bool = True
    audit_share: float = 0.005
    max_gap_s: float = 1.0
    global_share: float = 0.5
    idle_share: float = 0.1
    storm_fps: float = 2.0
    learn_rate: float = 0.05
    learn_rate_moving: float = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What is known before looking: where tracked things will be, (n, 4) ``xyxy`` in frame pixels, and that one frame
    in ``period_s`` is enough while nothing but them changes.
    """

    places: BoxArray = field(default_factory=lambda: NO_BOXES)
    period_s: float = 0.0


NOTHING_EXPECTED = Expected()


@dataclass(frozen=True, slots=True, eq=False)
class ChangeDecision:
    """Whether to keep the frame, why, and the motion boxes (n, 4) ``xyxy`` in frame pixels, largest first."""

    keep: bool
    reason: str
    motion: BoxArray


class ChangeDetector(Protocol):
    """Looks at every sampled frame, in order."""

    def look(self, image: Image, at_s: float, expected: Expected = NOTHING_EXPECTED) -> ChangeDecision:
        """Decide on one frame: ``image`` is (height, width, 3) uint8 BGR, ``at_s`` its scene time."""
        ...

    def learn(self, at_s: float, news: News) -> None:
        """Take in what the frame of scene time ``at_s``, which was kept, has shown; each model may have its say."""
        ...

    @property
    def memory(self) -> KeepMemory | None:
        """What was learned; None where nothing is."""
        ...

    def recall(self, memory: KeepMemory) -> None:
        """Go on from what was learned before."""
        ...


_SAME_IOU = 0.1
"""Boxes of two looks that overlap so much are of one moving thing."""
_A_MOMENT_LOOKS = 2
"""What moved so many looks ago is no surprise: slow things show at some looks and not at others."""


@dataclass(slots=True, eq=False)
class _Memory:
    """What the detector remembers of pictures: the learned background, the last kept frame, until when the scene
    settles, where something moved at the last looks.
    """

    where: Field
    busy: BusyCells
    background: NDArray[np.float32]
    stirred_at_s: NDArray[np.float64]
    kept: Grey
    kept_at_s: float
    settles_at_s: float = float("-inf")
    moved: deque[BoxArray] = field(default_factory=lambda: deque(maxlen=_A_MOMENT_LOOKS))

    @classmethod
    def of(cls, grey: Grey, at_s: float, where: Field) -> "_Memory":
        """The memory that begins with this picture."""
        return cls(where, BusyCells(grey.shape), grey.astype(np.float32), np.full(grey.shape, -np.inf), grey, at_s)

    def stir(self, changed: Grey, moving: Grey, at_s: float) -> Grey:
        """Note where something has changed; of what differs from the background, the part that has lately stirred."""
        specks_left_out = cv2.morphologyEx(changed, cv2.MORPH_OPEN, _SQUARE)
        np.copyto(self.stirred_at_s, at_s, where=specks_left_out > 0)
        lately = np.abs(at_s - self.stirred_at_s) <= _STANDS_AFTER_S
        return np.asarray(moving * lately, np.uint8)

    def sudden(self, boxes: BoxArray, places: BoxArray) -> int:
        """How much moves where neither anything is tracked nor anything moved at the last looks (in small pixels)."""
        before = np.concatenate(self.moved) if self.moved else NO_BOXES
        known = (iou(boxes, before) >= _SAME_IOU).any(axis=1) | (intersection(boxes, places) > 0).any(axis=1)
        self.moved.append(boxes)
        return int(np.count_nonzero(~known))

    def restart(self, grey: Grey, at_s: float, settle_s: float) -> None:
        """Take this picture for the scene from now on."""
        self.background, self.kept = grey.astype(np.float32), grey
        self.kept_at_s, self.settles_at_s = at_s, at_s + settle_s


_SETTLE_S = 1.0
"""Switches of exposure or to infrared take several frames; until they are over the background follows each frame."""
_EVERYWHERE = 0.8
_SCATTERED = 12
"""So many things that appear at one look are none: the light or the scene has changed."""
_SQUARE = np.ones((3, 3), np.uint8)
_STANDS_AFTER_S = 20.0
"""What has not stirred for so long belongs to the background, or never left it: light that creeps does not stir."""
_REMEMBERED_LOOKS = 16
"""Looks whose outcome may still come; a frame that nobody analysed is forgotten."""


class AdaptiveChange:
    """The change detector described at the top of the module.

    ``mask`` (height, width) uint8 of any size, 0 where nothing is to be noticed; None looks everywhere.
    """

    def __init__(self, settings: ChangeSettings, mask: NDArray[np.uint8] | None = None) -> None:
        self._settings = settings
        self._full_mask = mask
        self._memory: _Memory | None = None
        self._noise_levels, self._noise_samples = 1.0, 0
        self._storm = StormWatch()
        keep = KeepSettings(settings.least_area, settings.max_gap_s, settings.idle_share, settings.audit_share)
        self._keep = KeepRule(keep)
        self._looks: OrderedDict[float, Change] = OrderedDict()

    def look(self, image: Image, at_s: float, expected: Expected = NOTHING_EXPECTED) -> ChangeDecision:
        grey = shrink(image, self._settings.height_px)
        memory = self._memory
        if memory is None or memory.kept.shape != grey.shape:
            self._memory = _Memory.of(grey, at_s, Field.of(grey.shape, self._full_mask))
            return ChangeDecision(keep=True, reason="first", motion=NO_BOXES)
        size = Size(image.shape[1], image.shape[0])
        zoom = np.array([size.width / grey.shape[1], size.height / grey.shape[0]] * 2)
        places = np.asarray(expected.places / zoom, np.float32)
        expected_grey = memory.where.under_light_of(grey, memory.kept)
        self._learn_noise(memory.where.noise_levels(grey, expected_grey))
        moving = self._beyond_noise(memory, grey, memory.where.under_light_of(grey, memory.background))
        if self._is_new_scene(memory, moving):
            return self._new_scene(memory, grey, at_s)
        changed = self._beyond_noise(memory, grey, expected_grey)
        lively = memory.stir(changed, moving, at_s)
        self._learn_background(memory, grey, lively)
        motion = self._moving_parts(memory.busy.quieten(lively))
        sudden = memory.sudden(_corners(motion), places)
        if sudden >= _SCATTERED:
            return self._new_scene(memory, grey, at_s)
        was_storm = self._storm.active
        if self._storm.see(sudden=sudden) or was_storm:
            return self._look_in_storm(memory, grey, at_s)
        if at_s < memory.settles_at_s:
            memory.background, motion = grey.astype(np.float32), motion[:0]
        memory.busy.learn(np.asarray(cv2.bitwise_or(changed, lively), np.uint8), places, at_s)
        change = _largest(memory.busy.quieten(changed), places)
        keep, reason = self._keep.decide(change, at_s - memory.kept_at_s, expected.period_s)
        if keep:
            memory.kept, memory.kept_at_s = grey, at_s
            self._remember(at_s, change)
        return ChangeDecision(keep=keep, reason=reason, motion=boxes_of(motion, grey.shape, size))

    def learn(self, at_s: float, news: News) -> None:
        change = self._looks.get(at_s)
        if change is not None and self._settings.learn:
            self._keep.learn(change, news)

    @property
    def memory(self) -> KeepMemory | None:
        return self._keep.memory if self._settings.learn else None

    def recall(self, memory: KeepMemory) -> None:
        if self._settings.learn:
            self._keep.recall(memory)

    def _remember(self, at_s: float, change: Change) -> None:
        self._looks[at_s] = change
        if len(self._looks) > _REMEMBERED_LOOKS:
            self._looks.popitem(last=False)

    def _is_new_scene(self, memory: _Memory, moving: Grey) -> bool:
        """Most pixels differ, or some do nearly everywhere, as where the camera turns."""
        if cv2.countNonZero(moving) > self._settings.global_share * memory.where.pixels:
            return True
        return memory.where.spread(moving) > _EVERYWHERE

    def _new_scene(self, memory: _Memory, grey: Grey, at_s: float) -> ChangeDecision:
        if self._storm.see(new_scene=True):
            return self._look_in_storm(memory, grey, at_s)
        memory.restart(grey, at_s, _SETTLE_S)
        return ChangeDecision(keep=True, reason="scene_changed", motion=NO_BOXES)

    def _look_in_storm(self, memory: _Memory, grey: Grey, at_s: float) -> ChangeDecision:
        """Keep a frame now and then, claim no motion; when the storm is over this picture is the scene."""
        if not self._storm.active:
            memory.restart(grey, at_s, 0.0)
            return ChangeDecision(keep=True, reason="scene_changed", motion=NO_BOXES)
        memory.background = grey.astype(np.float32)
        if 0 <= at_s - memory.kept_at_s < 1 / self._settings.storm_fps - 1e-6:
            return ChangeDecision(keep=False, reason="storm", motion=NO_BOXES)
        memory.kept, memory.kept_at_s = grey, at_s
        return ChangeDecision(keep=True, reason="storm", motion=NO_BOXES)

    def _learn_noise(self, levels: float) -> None:
        self._noise_samples += 1
        self._noise_levels += max(0.1, 1 / self._noise_samples) * (max(levels, 0.5) - self._noise_levels)

    def _beyond_noise(self, memory: _Memory, grey: Grey, expected: Grey) -> Grey:
        """Mask (255: beyond the threshold, and not masked)."""
        s = self._settings
        threshold = min(max(s.least_levels, s.noise_factor * self._noise_levels), s.most_levels)
        return memory.where.beyond(difference(grey, expected), threshold)

    def _learn_background(self, memory: _Memory, grey: Grey, moving: Grey) -> None:
        cv2.accumulateWeighted(grey, memory.background, self._settings.learn_rate, cv2.bitwise_not(moving))
        cv2.accumulateWeighted(grey, memory.background, self._settings.learn_rate_moving, moving)

    def _moving_parts(self, mask: Grey) -> NDArray[np.int32]:
        """The moving things (n, 5) as ``parts`` gives them, largest first."""
        rows = parts(np.asarray(cv2.dilate(mask, np.ones((5, 5), np.uint8)), np.uint8))
        rows = rows[rows[:, cv2.CC_STAT_AREA] >= 4 * self._settings.least_area * mask.size]
        return np.asarray(rows[np.argsort(-rows[:, cv2.CC_STAT_AREA])], np.int32)


def _corners(rows: NDArray[np.int32]) -> BoxArray:
    """Boxes (n, 4) ``xyxy`` of parts, in small pixels."""
    return np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:4]], axis=1).astype(np.float32)


def _largest(changed: Grey, places: BoxArray) -> Change:
    rows = parts(changed)
    if not len(rows):
        return Change()
    share = rows[:, cv2.CC_STAT_AREA] / changed.size
    at_track = (intersection(_corners(rows), places) > 0).any(axis=1)
    return Change(float(share[~at_track].max(initial=0.0)), float(share[at_track].max(initial=0.0)))


class NoChangeDetection:
    """Keeps every sampled frame; motion boxes come from the adaptive detector all the same."""

    def __init__(self, settings: ChangeSettings, mask: NDArray[np.uint8] | None = None) -> None:
        self._motion = AdaptiveChange(settings, mask)

    def look(self, image: Image, at_s: float, expected: Expected = NOTHING_EXPECTED) -> ChangeDecision:
        return ChangeDecision(keep=True, reason="uniform", motion=self._motion.look(image, at_s, expected).motion)

    def learn(self, at_s: float, news: News) -> None:
        """Learn nothing: every frame is kept whatever it shows."""

    memory: KeepMemory | None = None

    def recall(self, memory: KeepMemory) -> None:
        """Nothing was learned."""
