"""Which parts of a frame deserve a second look by the larger model, and whether it can come in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Literal, Protocol

import numpy as np

from pipeline.geometry import BoxArray, Size, coverage, merge_close, pad


class Why(StrEnum):
    """Why a place deserves a second look."""

    UNCERTAIN = "uncertain"  # the small model is not sure
    NEW_TRACK = "new_track"  # never seen by the cloud
    UNVERIFIED = "unverified"  # the cloud's last look is too long ago
    MISSED = "missed"  # a confirmed track that the small model did not find again
    MOTION = "motion"  # something moved where nothing was detected


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place to look at: ``box`` is ``xyxy`` in frame pixels, ``gain`` in [0, 1] what a look is worth."""

    box: tuple[float, float, float, float]
    why: Why
    gain: float


@dataclass(frozen=True, slots=True)
class OffloadSettings:
    """Settings of the decision.

    ``padding`` (share of a side, at least ``padding_px``) is added around each place; two places are joined while the
    box around both has less than ``merge_slack`` times their area. At most ``most_regions`` such regions go.
    A low-quality full frame goes every ``full_frame_s`` (0: never), to find what the small model does not see at all.
    ``tail_deviations``: how pessimistic the predicted round trip is.
    """

    padding: float = 0.15
    padding_px: float = 8.0
    merge_slack: float = 1.3
    most_regions: int = 16
    full_frame_s: float = 8.0
    tail_deviations: float = 3.0


@dataclass(frozen=True, slots=True)
class OffloadView:
    """All that the decision may look at.

    ``remaining_ms`` until the deadline, ``round_trip_ms`` the predicted tails of round trips by kind (missing:
    unknown), ``expected_bytes`` by kind, ``tokens_bytes`` what the uplink budget allows now (None: no limit),
    ``since_full_frame_s`` since the last full frame, or since the first; ``reachable`` False with
    ``unreachable_reason`` while the way is known to be down.
    """

    candidates: tuple[Candidate, ...]
    remaining_ms: float
    round_trip_ms: Mapping[str, float]
    expected_bytes: Mapping[str, float]
    tokens_bytes: float | None
    since_full_frame_s: float
    reachable: bool
    unreachable_reason: str = ""


Kind = Literal["none", "mosaic", "frame"]


@dataclass(frozen=True, slots=True, eq=False)
class OffloadDecision:
    """What to send and why: ``places`` for a mosaic. ``wanted`` is True where a second look could not be had."""

    kind: Kind
    reason: str
    places: tuple[Candidate, ...] = ()
    wanted: bool = False


class OffloadPolicy(Protocol):
    """Decides for one analysed frame."""

    def decide(self, view: OffloadView) -> OffloadDecision: ...


def obstacle(view: OffloadView, kind: str) -> str:
    """Why a request cannot usefully be sent now; empty when it can."""
    if not view.reachable:
        return view.unreachable_reason
    if view.round_trip_ms.get(kind, 0.0) > max(view.remaining_ms, 0.0):
        return "infeasible"
    if view.tokens_bytes is not None and view.tokens_bytes < view.expected_bytes.get(kind, 0.0):
        return "budget"
    return ""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Sends what is uncertain, new, unverified, missed or moving without a box; now and then the whole frame."""

    settings: OffloadSettings

    def decide(self, view: OffloadView) -> OffloadDecision:
        period_s = self.settings.full_frame_s
        if 0 < period_s <= view.since_full_frame_s:
            hindrance = obstacle(view, "frame")
            if not hindrance:
                return OffloadDecision("frame", "search_for_missed")
            # Mosaics would spend every byte as it comes. Where one period does not save up enough they go first again.
            if hindrance == "budget" and view.since_full_frame_s < 2 * period_s:
                return OffloadDecision("none", "saving_for_full_frame", wanted=True)
        if not view.candidates:
            return OffloadDecision("none", "nothing_uncertain")
        hindrance = obstacle(view, "mosaic")
        if hindrance:
            return OffloadDecision("none", hindrance, wanted=True)
        most_wanted = max(view.candidates, key=lambda c: c.gain)
        return OffloadDecision("mosaic", most_wanted.why.value, view.candidates)


@dataclass(frozen=True, slots=True)
class Always:
    """Sends every analysed frame as a whole; for comparison and for ``cloud_only``."""

    def decide(self, view: OffloadView) -> OffloadDecision:
        hindrance = obstacle(view, "frame")
        if hindrance:
            return OffloadDecision("none", hindrance, wanted=True)
        return OffloadDecision("frame", "always")


@dataclass(frozen=True, slots=True)
class Never:
    """Sends nothing; ``edge_only``."""

    def decide(self, view: OffloadView) -> OffloadDecision:  # noqa: ARG002 - the Protocol's argument
        return OffloadDecision("none", "edge_only")


@dataclass(frozen=True, slots=True)
class RandomShare:
    """Sends all places of a random share of the frames; for comparison. The generator is handed in."""

    share: float
    rng: Random

    def decide(self, view: OffloadView) -> OffloadDecision:
        if not view.candidates or self.rng.random() >= self.share:
            return OffloadDecision("none", "not_drawn")
        hindrance = obstacle(view, "mosaic")
        if hindrance:
            return OffloadDecision("none", hindrance, wanted=True)
        return OffloadDecision("mosaic", "drawn", view.candidates)


def crops(places: Sequence[Candidate], settings: OffloadSettings, size: Size) -> BoxArray:
    """The regions (n, 4) to send: places padded and joined, the most wanted first, in frame pixels."""
    boxes = np.array([place.box for place in places], dtype=np.float32).reshape(-1, 4)
    gains = np.array([place.gain for place in places], dtype=np.float32)
    regions = merge_close(pad(boxes, settings.padding, settings.padding_px, size), settings.merge_slack)
    gain = (coverage(boxes, regions) * gains[:, None]).sum(axis=0)
    return np.asarray(regions[np.argsort(-gain, kind="stable")][: settings.most_regions], dtype=np.float32)
