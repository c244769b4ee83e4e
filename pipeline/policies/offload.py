"""Which parts of a frame deserve a second look by the larger model, and whether it can come in time."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Literal, Protocol

import numpy as np

from pipeline.geometry import BoxArray, Size, coverage, merge_close, pad
from pipeline.policies import tier_offers

STAYING_FACTOR = 0.8
"""A camera that sends goes on at this part of the price."""
OVERHEAD_BYTES = 900.0
"""What a request costs beside its pixels: topic, header, tables of the JPEG."""
_LEAST_GAIN = 1e-9


class Why(StrEnum):
    """Why a place deserves a second look."""

    UNCERTAIN = "uncertain"  # the small model is not sure
    NEW_TRACK = "new_track"  # never seen by the cloud
    UNVERIFIED = "unverified"  # the cloud's last look is too long ago
    MISSED = "missed"  # a confirmed track that the small model did not find again
    MOTION = "motion"  # something moved where nothing was detected


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place to look at: ``box`` is ``xyxy`` in frame pixels, ``gain`` in [0, 1] what a look is worth.

    ``score`` is the small model's there; 0 where it found nothing.
    """

    box: tuple[float, float, float, float]
    why: Why
    gain: float
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class OffloadSettings:
    """Settings of the decision.

    ``padding`` (share of a side, at least ``padding_px``) is added around each place; two places are joined while the
    box around both has less than ``merge_slack`` times their area. At most ``most_regions`` such regions go.
    A low-quality full frame goes every ``full_frame_s`` (0: never), to find what the small model does not see at all.
    ``tail_deviations``: how pessimistic the predicted round trip is.

    ``policy`` is one of ``OFFLOAD_KINDS``. Of ``adaptive``: a place with less predicted gain than ``least_gain`` is
    left out, with less than ``least_gain_own`` where a model of the camera's own looks, which has been proven against
    the larger one: where such two differ, either may be right. Of the frames, a share of ``audit_share`` has all places
    looked at, so that what is never asked about is learned about too. A share ``trial_share`` of the whole frames is
    followed by a trial of how crops are drawn.
    ``threshold`` is a score, of the two policies that go by it; ``share`` that of ``random``.
    """

    policy: str = "adaptive"
    least_gain: float = 0.005
    least_gain_own: float = 0.15
    audit_share: float = 0.03
    trial_share: float = 0.25
    threshold: float = 0.6
    share: float = 0.2
    padding: float = 0.15
    padding_px: float = 8.0
    merge_slack: float = 1.3
    most_regions: int = 16
    full_frame_s: float = 8.0
    tail_deviations: float = 1.0


@dataclass(frozen=True, slots=True)
class OffloadView:
    """All that the decision may look at.

    ``remaining_ms`` until the deadline, ``round_trip_ms`` the predicted tails of round trips by kind (missing:
    unknown), ``expected_bytes`` by kind, ``tokens_bytes`` what the uplink budget allows now (None: no limit),
    ``since_full_frame_s`` since the last full frame, or since the first; ``reachable`` False with
    ``unreachable_reason`` while the way is known to be down.

    ``price_per_kb`` is the least predicted gain per 1000 bytes that is worth sending now; ``bytes_per_px`` what a pixel
    of the frame costs in a mosaic. ``sending``: whether the last places that were wanted were sent. ``least_score`` is
    that of the boxes that are published anyway; ``audited`` are further places, where this frame was drawn for them.
    ``most_bytes`` is the largest mosaic that is predicted to be in time (None: unknown). ``own_model``: the camera's
    own model has looked. ``mosaic_hindrance``: why crops are not asked about whatever they gain; else empty.
    ``whole_frames``: the camera's privacy allows that whole frames are sent.
    """

    candidates: tuple[Candidate, ...]
    remaining_ms: float
    round_trip_ms: Mapping[str, float]
    expected_bytes: Mapping[str, float]
    tokens_bytes: float | None
    since_full_frame_s: float
    reachable: bool
    unreachable_reason: str = ""
    price_per_kb: float = 0.0
    bytes_per_px: float = 0.0
    sending: bool = True
    least_score: float | None = None
    audited: tuple[Candidate, ...] = ()
    most_bytes: float | None = None
    own_model: bool = False
    whole_frames: bool = True
    mosaic_hindrance: str = ""


Kind = Literal["none", "mosaic", "frame"]


@dataclass(frozen=True, slots=True, eq=False)
class OffloadDecision:
    """What to send and why: ``places`` for a mosaic. ``wanted`` is True where a second look could not be had.

    Of the places, ``drawn`` are only there to be learned from. ``late``: the answer cannot come in time and is asked
    for all the same, for the tracks; nobody waits for it.
    """

    kind: Kind
    reason: str
    places: tuple[Candidate, ...] = ()
    wanted: bool = False
    drawn: tuple[Candidate, ...] = ()
    late: bool = False


class OffloadPolicy(Protocol):
    """Decides for one analysed frame."""

    def decide(self, view: OffloadView) -> OffloadDecision: ...


def obstacle(view: OffloadView, kind: str) -> str:
    """Why a request cannot usefully be sent now; empty when it can."""
    if not view.reachable:
        return view.unreachable_reason
    if kind == "mosaic" and view.mosaic_hindrance:
        return view.mosaic_hindrance
    if kind == "frame" and not view.whole_frames:
        return tier_offers.Why.NOT_MASKED.value
    if view.round_trip_ms.get(kind, 0.0) > max(view.remaining_ms, 0.0):
        return "infeasible"
    if view.tokens_bytes is not None and view.tokens_bytes < view.expected_bytes.get(kind, 0.0):
        return "budget"
    return ""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Sends the places where a second look is worth its bytes; now and then the whole frame.

    Feasibility against the deadline and the budget goes first; then each place must bring its price. A camera that
    sends goes on at a somewhat lower price than one that has stopped, so that it does not change with every frame.
    Where not all of it can be in time, the places go that bring most for the time that they take.
    """

    settings: OffloadSettings

    def decide(self, view: OffloadView) -> OffloadDecision:
        period_s = self.settings.full_frame_s
        if 0 < period_s <= view.since_full_frame_s:
            hindrance = obstacle(view, "frame")
            if not hindrance:
                return OffloadDecision("frame", "search_for_missed")
            if hindrance == "infeasible" and not obstacle(replace(view, remaining_ms=math.inf), "frame"):
                # What the small model does not see at all must be found also where a whole frame never comes in time.
                return OffloadDecision("frame", "search_late", late=True)
            # Mosaics would spend every byte as it comes. Where one period does not save up enough they go first again.
            if hindrance == "budget" and view.since_full_frame_s < 2 * period_s:
                return OffloadDecision("none", "saving_for_full_frame", wanted=True)
        worth, refused = self._worth_it(view)
        drawn = tuple(place for place in view.audited if place not in worth)
        if not worth and not drawn:
            return OffloadDecision("none", refused, wanted=refused == "price")
        places, hindrance = self._in_time(worth + drawn, view)
        if hindrance:
            return OffloadDecision("none", hindrance, wanted=bool(worth))
        drawn = tuple(place for place in places if place in drawn)
        most_wanted = max((place for place in places if place not in drawn), key=lambda c: c.gain, default=None)
        return OffloadDecision("mosaic", "audit" if most_wanted is None else most_wanted.why.value, places, drawn=drawn)

    def _in_time(self, places: tuple[Candidate, ...], view: OffloadView) -> tuple[tuple[Candidate, ...], str]:
        """Of these places those that can be in time together, the best for their bytes first, and why there is none."""
        if view.most_bytes is None:
            return places, obstacle(view, "mosaic")
        hindrance = obstacle(replace(view, round_trip_ms={}), "mosaic")  # it goes by its own size, not by the usual one
        room_bytes, kept = view.most_bytes - OVERHEAD_BYTES, set()
        costs_bytes = [self._cost_bytes(place, view) for place in places]
        # All travel over one link: most per byte is most per millisecond.
        for i in sorted(range(len(places)), key=lambda i: costs_bytes[i] / max(places[i].gain, _LEAST_GAIN)):
            if costs_bytes[i] <= room_bytes:
                kept.add(i)
                room_bytes -= costs_bytes[i]
        return tuple(places[i] for i in sorted(kept)), hindrance or ("" if kept else "infeasible")

    def _worth_it(self, view: OffloadView) -> tuple[tuple[Candidate, ...], str]:
        """The candidates that bring their price, and why there is none."""
        if not view.candidates:
            return (), "nothing_uncertain"
        least = self.settings.least_gain_own if view.own_model else self.settings.least_gain
        gainful = [place for place in view.candidates if place.gain >= least]
        if not gainful:
            return (), "little_gain"
        price = view.price_per_kb * (STAYING_FACTOR if view.sending else 1.0)
        costs_kb = [self._cost_bytes(place, view) / 1000 for place in gainful]
        worth = [i for i, place in enumerate(gainful) if place.gain >= price * costs_kb[i]]
        total_kb = sum(costs_kb[i] for i in worth) + OVERHEAD_BYTES / 1000
        if not worth or sum(gainful[i].gain for i in worth) < price * total_kb:
            return (), "price"
        return tuple(gainful[i] for i in worth), ""

    def _cost_bytes(self, place: Candidate, view: OffloadView) -> float:
        x1, y1, x2, y2 = place.box
        grown = [side + 2 * max(side * self.settings.padding, self.settings.padding_px) for side in (x2 - x1, y2 - y1)]
        return grown[0] * grown[1] * view.bytes_per_px


@dataclass(frozen=True, slots=True)
class Threshold:
    """Sends the places where the small model's score is below a fixed one; for comparison."""

    score: float

    def decide(self, view: OffloadView) -> OffloadDecision:
        return _mosaic(view, tuple(place for place in view.candidates if place.score < self.score), "below_threshold")


@dataclass(frozen=True, slots=True)
class MinConfidence:
    """Sends all places of a frame whose least sure published box is below a score; for comparison."""

    score: float

    def decide(self, view: OffloadView) -> OffloadDecision:
        unsure = view.least_score is not None and view.least_score < self.score
        return _mosaic(view, view.candidates if unsure else (), "low_confidence")


def _mosaic(view: OffloadView, places: tuple[Candidate, ...], reason: str) -> OffloadDecision:
    if not places:
        return OffloadDecision("none", "nothing_uncertain")
    hindrance = obstacle(view, "mosaic")
    return OffloadDecision("none", hindrance, wanted=True) if hindrance else OffloadDecision("mosaic", reason, places)


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
        return _mosaic(view, view.candidates, "drawn")


OFFLOAD_KINDS: Mapping[str, Callable[[OffloadSettings], OffloadPolicy]] = {
    "adaptive": Adaptive,
    "threshold": lambda settings: Threshold(settings.threshold),
    "min_confidence": lambda settings: MinConfidence(settings.threshold),
    "random": lambda settings: RandomShare(settings.share, Random(0)),
    "always": lambda _: Always(),
    "never": lambda _: Never(),
}
"""Every policy, by the name in the configuration."""


def crops(places: Sequence[Candidate], settings: OffloadSettings, size: Size) -> BoxArray:
    """The regions (n, 4) to send: places padded and joined, the most wanted first, in frame pixels."""
    boxes = np.array([place.box for place in places], dtype=np.float32).reshape(-1, 4)
    gains = np.array([place.gain for place in places], dtype=np.float32)
    regions = merge_close(pad(boxes, settings.padding, settings.padding_px, size), settings.merge_slack)
    gain = (coverage(boxes, regions) * gains[:, None]).sum(axis=0)
    return np.asarray(regions[np.argsort(-gain, kind="stable")][: settings.most_regions], dtype=np.float32)
