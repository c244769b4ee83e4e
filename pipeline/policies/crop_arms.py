"""How crops are drawn: padding, scale and JPEG quality, chosen from a few arms by what they cost and what they lose."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class CropArm:
    """One way to draw crops: padding as a share of a place's side, scale of the crops, JPEG quality from 1 to 100."""

    padding: float = 0.15
    scale: float = 0.6
    quality: int = 60


PADDINGS, SCALES, QUALITIES = (0.10, 0.15, 0.25), (0.5, 0.6, 0.75, 1.0), (40, 60, 80)
ARMS: tuple[CropArm, ...] = tuple(
    CropArm(padding, scale, quality) for padding, scale, quality in product(PADDINGS, SCALES, QUALITIES)
)
"""What is tried."""


@dataclass(frozen=True, slots=True)
class ArmRecord:
    """What is known of an arm: over ``looks`` looks, right, wrong and missed boxes against a reference, and bytes."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    size_bytes: int = 0
    looks: int = 0

    def add(self, right: int, wrong: int, missed: int, size_bytes: int) -> "ArmRecord":
        """The record after one more look."""
        return ArmRecord(
            self.right + right,
            self.wrong + wrong,
            self.missed + missed,
            self.size_bytes + size_bytes,
            self.looks + 1,
        )

    @property
    def agreement(self) -> float:
        """F1 against the reference; 1 where there was nothing."""
        boxes = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / boxes if boxes else 1.0

    @property
    def mean_bytes(self) -> float:
        """Bytes per look."""
        return self.size_bytes / max(self.looks, 1)


def cheapest(
    records: Mapping[CropArm, ArmRecord], default: CropArm, *, bound: float = 0.01, least_boxes: int = 50
) -> CropArm:
    """The arm with the fewest bytes of those whose agreement is within ``bound`` of the best.

    An arm counts once it has seen ``least_boxes`` boxes; the default stays until two have.
    """
    known = {arm: r for arm, r in records.items() if r.right + r.missed >= least_boxes}
    if len(known) < 2:
        return default
    best = max(record.agreement for record in known.values())
    good = [arm for arm, record in known.items() if record.agreement >= best - bound]
    return min(good, key=lambda arm: (known[arm].mean_bytes, arm))


def arm_as_dict(arm: CropArm) -> dict[str, Any]:
    """The arm as plain values, for JSON."""
    return {"padding": arm.padding, "scale": arm.scale, "quality": arm.quality}


def arm_from_dict(values: Mapping[str, Any]) -> CropArm:
    """The arm that ``arm_as_dict`` gave. Raises ValueError where it is none."""
    try:
        arm = CropArm(float(values["padding"]), float(values["scale"]), int(values["quality"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its crop has no padding, scale and quality ({error!r})") from error
    if not (0 <= arm.padding <= 5 and 0 < arm.scale <= 4 and 1 <= arm.quality <= 100):
        raise ValueError(f"its crop has padding {arm.padding}, scale {arm.scale}, quality {arm.quality}: out of range")
    return arm
