"""What was learned about one camera, as a value that is kept between runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.policies.crop_arms import CropArm, arm_as_dict, arm_from_dict
from pipeline.policies.gain import GainModel

SCHEMA = 1


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The gain model, how crops are drawn (None: as configured), and the least gain that is worth a look (the same)."""

    gain: GainModel = field(default_factory=GainModel)
    arm: CropArm | None = None
    least_gain: float | None = None

    def encode(self) -> str:
        """The calibration as JSON."""
        values: dict[str, Any] = {"schema": SCHEMA, "gain": self.gain.as_dict()}
        if self.arm is not None:
            values["crop"] = arm_as_dict(self.arm)
        if self.least_gain is not None:
            values["least_gain"] = self.least_gain
        return json.dumps(values)


def decode(text: str) -> Calibration:
    """The calibration that ``encode`` gave. Raises ValueError that says what is wrong with it."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from error
    fault = _fault(values)
    if fault:
        raise ValueError(fault)
    crop, least = values.get("crop"), values.get("least_gain")
    return Calibration(
        GainModel.from_dict(values["gain"]),
        None if crop is None else arm_from_dict(crop),
        None if least is None else float(least),
    )


def _fault(values: object) -> str:
    """What is wrong with the outer form of a calibration; empty where nothing is."""
    if not isinstance(values, Mapping) or not isinstance(values.get("gain"), Mapping):
        return "it is no calibration: it has no gain model"
    if values.get("schema") != SCHEMA:
        return f"it has schema {values.get('schema')!r}, and this version reads {SCHEMA}"
    crop, least = values.get("crop"), values.get("least_gain")
    if crop is not None and not isinstance(crop, Mapping):
        return "its crop is no group of padding, scale and quality"
    if least is not None and not (isinstance(least, int | float) and 0 <= least <= 1):
        return f"its least_gain is {least!r}, and must be a number from 0 to 1"
    return ""
