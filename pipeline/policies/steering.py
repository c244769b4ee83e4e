"""How much of the cloud a camera may use: the price of a look, steered so that budgets hold and the best looks go.

lambda, the share of frames answered at the edge, is an outcome. Each budget (bytes, frames that may ask, agreement)
is a bucket; its multiplier rises while the bucket is emptier than it should be and falls while it is fuller, as the
dual variable of a constraint does in online allocation (drift-plus-penalty: Neely, Stochastic Network Optimization,
2010, chapter 4), with an integral term so that the bucket rests there instead of where demand happens to push it. A
place goes where its predicted gain per kilobyte is at least the price: a tight budget is spent on the best places, not
on the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

_REST = 0.6
"""Where a bucket is to come to rest: room above for silence, below for a sudden need."""
_LEAST_LEVEL, _MOST_LEVEL, _MOST_FACTOR = 0.1, 20.0, 1.25
_MOST_GAP_S, _LEAST_GAP_S = 1.0, 0.05
_SCALE_GAIN = 1 / 16
_SLOW_FOR_S = 0.5
"""A way is too slow when it has been for so long: one late frame is no slow way."""
_AGREEMENT_S, _FILL_PER_AGREEMENT = 10.0, 10.0


class Mode(StrEnum):
    """How a camera uses the cloud."""

    OPEN = "open"  # every look that is worth anything
    SAVING = "saving"  # looks that are worth their price
    EDGE = "edge"  # no answer would come in time: one try now and then


@dataclass(frozen=True, slots=True)
class SteeringSettings:
    """``agreement`` in (0, 1] of edge and cloud on audited frames is enough: looks beyond it are not bought (None:
    whatever the budget buys). The mode changes at most once in ``dwell_s``. A way is too slow where not even
    ``least_bytes`` come in time, and fast enough again where they need no more than ``factor`` of it. Frames that may
    ask are saved up, ``frames_ahead`` at most. The price of bytes is at most ``price_most`` times what they have lately
    been worth (0: there is none): a place that is left out saves few bytes where others are sent anyway.
    """

    agreement: float | None = None
    dwell_s: float = 5.0
    least_bytes: float = 1500.0
    factor: float = 0.9
    frames_ahead: float = 4.0
    price_most: float = 0.4


@dataclass(frozen=True, slots=True)
class Multiplier:
    """The multiplier of one budget, steered by its bucket's level: ``level`` is learned by integral control and is what
    the multiplier rests at; with the bucket it falls to nothing when that is full, so that no allowance goes to waste.
    ``lacking`` from when the bucket falls below its rest until the level has fallen to next to nothing.
    """

    level: float = 1.0
    value: float = 0.0
    lacking: bool = False

    def step(self, fill: float | None, gap_s: float, bucket_s: float, most: float = _MOST_LEVEL) -> "Multiplier":
        """The multiplier ``gap_s`` later, at most ``most``.

        ``fill`` is the bucket's level as a share (None: there is no such budget) and ``bucket_s`` how long an empty one
        takes to fill: the slower the bucket, the slower the control.
        """
        if fill is None:
            return Multiplier()
        level = self.level
        if self.lacking:
            lack = max(-1.0, min(1.0, _REST - fill))
            level = max(_LEAST_LEVEL, min(most, level * (1 + lack * min(1.0, gap_s / (2 * bucket_s)))))
        value = min(most, level * min(_MOST_FACTOR, max(0.0, 1.0 - fill) / (1.0 - _REST)))
        return Multiplier(level, value, lacking=fill < _REST or (self.lacking and level > _LEAST_LEVEL))


@dataclass(frozen=True, slots=True)
class SteeringView:
    """What is known when a frame has been analysed. ``fill`` is the level of the camera's bucket of bytes as a share,
    ``bucket_s`` how long it takes to fill. ``least_tail_ms`` is the tail of the round trip of the smallest useful
    request (None: unknown), to be held against ``remaining_ms``. ``lambda_least`` of the frames stay at the edge.
    ``agreement`` is that of edge and cloud on audited frames of late (None: unknown).
    """

    now_s: float
    fill: float | None
    bucket_s: float
    least_tail_ms: float | None
    remaining_ms: float
    lambda_least: float = 0.0
    agreement: float | None = None


@dataclass(frozen=True, slots=True)
class Steering:
    """The controllers of one camera. ``hindrance`` says why this frame may not ask; empty where it may.

    ``credit`` counts frames that may ask; ``gain`` and ``place_kb`` are what a place was worth and took of late, the
    scale of the price; ``slow_since_s`` is since when no answer would have come in time.
    """

    mode: Mode = Mode.OPEN
    since_s: float = float("-inf")
    hindrance: str = ""
    at_s: float | None = None
    bytes: Multiplier = field(default_factory=Multiplier)
    asking: Multiplier = field(default_factory=Multiplier)
    agreeing: Multiplier = field(default_factory=Multiplier)
    credit: float = 1.0
    gain: float = 0.0
    place_kb: float = 0.0
    slow_since_s: float | None = None

    @property
    def multiplier(self) -> float:
        """The multiplier of the budget that binds."""
        return max(self.bytes.value, self.asking.value, self.agreeing.value)

    @property
    def lacking(self) -> bool:
        """Whether some budget does not buy all that could be asked."""
        return self.bytes.lacking or self.asking.lacking or self.agreeing.lacking

    @property
    def price_per_kb(self) -> float:
        """The least predicted gain per 1,000 bytes that is worth sending now."""
        if self.mode is not Mode.SAVING or not self.place_kb:
            return 0.0
        return self.multiplier * self.gain / self.place_kb

    def step(self, view: SteeringView, settings: SteeringSettings) -> "Steering":
        """The controllers at an analysed frame."""
        gap_s = 0.0 if self.at_s is None else max(0.0, min(_MOST_GAP_S, view.now_s - self.at_s))
        most_credit, earned = settings.frames_ahead, 1.0 - view.lambda_least
        credit = min(most_credit, self.credit + earned)
        asking_fill = credit / most_credit if view.lambda_least > 0 else None
        asking_s = most_credit * max(gap_s, _LEAST_GAP_S) / max(earned, _LEAST_GAP_S)
        moved = replace(
            self,
            at_s=view.now_s,
            bytes=self.bytes.step(view.fill, gap_s, view.bucket_s, settings.price_most),
            asking=self.asking.step(asking_fill, gap_s, asking_s),
            agreeing=self.agreeing.step(_agreement_fill(view, settings), gap_s, _AGREEMENT_S),
            credit=credit,
            slow_since_s=self.slow_since_s if _slow(self.mode, view, settings) else None,
        )
        if _slow(self.mode, view, settings) and self.slow_since_s is None:
            moved = replace(moved, slow_since_s=view.now_s)
        return _hindered(_switched(moved, view, settings), view)

    def offered(self, gains: Sequence[float]) -> "Steering":
        """After the places of a frame were weighed: what a place is worth of late."""
        if not gains:
            return self
        mean = sum(gains) / len(gains)
        return replace(self, gain=self.gain + _SCALE_GAIN * (mean - self.gain) if self.gain else mean)

    def asked(self, places: int, size_bytes: float) -> "Steering":
        """After a frame asked: ``places`` of it took so many bytes (0 places: it was sent as a whole)."""
        paid = replace(self, credit=self.credit - 1.0)
        if not places:
            return paid
        kb = size_bytes / 1000 / places
        return replace(paid, place_kb=self.place_kb + _SCALE_GAIN * (kb - self.place_kb) if self.place_kb else kb)


def _agreement_fill(view: SteeringView, settings: SteeringSettings) -> float | None:
    """Agreement as a bucket: emptier than it should be, so that looks are saved, while there is more than needed."""
    if settings.agreement is None or view.agreement is None:
        return None
    return _REST - _FILL_PER_AGREEMENT * (view.agreement - settings.agreement)


def _slow(mode: Mode, view: SteeringView, settings: SteeringSettings) -> bool:
    """Whether not even a small request would be answered in time; a slow way must have become clearly faster."""
    if view.least_tail_ms is None:
        return mode is Mode.EDGE
    return view.least_tail_ms > view.remaining_ms * (settings.factor if mode is Mode.EDGE else 1.0)


def _switched(steering: Steering, view: SteeringView, settings: SteeringSettings) -> Steering:
    """The mode that is called for, unless the last change was too recently."""
    slow_s = 0.0 if steering.slow_since_s is None else view.now_s - steering.slow_since_s
    if slow_s >= _SLOW_FOR_S or (steering.mode is Mode.EDGE and steering.slow_since_s is not None):
        wanted = Mode.EDGE
    else:
        wanted = Mode.SAVING if steering.lacking else Mode.OPEN
    if wanted is steering.mode or view.now_s - steering.since_s < settings.dwell_s:
        return steering
    return replace(steering, mode=wanted, since_s=view.now_s)


def _hindered(steering: Steering, view: SteeringView) -> Steering:
    hindrance = ""
    if steering.mode is Mode.EDGE and view.least_tail_ms is not None:
        hindrance = "edge_mode"
    elif view.lambda_least > 0 and steering.credit < 1.0:
        hindrance = "lambda_least"
    return replace(steering, hindrance=hindrance)
