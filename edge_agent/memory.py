"""What a camera has learned, as a value that outlives the agent, and as JSON. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.policies.gain import GainModel
from pipeline.policies.keep import KeepMemory
from pipeline.policies.learned_arms import LearnedArms

VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The gain model, how crops are drawn, and what the gate knows of the scene's changes (None: nothing yet)."""

    camera: str
    gain: GainModel
    arms: LearnedArms
    gate: KeepMemory | None

    def encode(self) -> bytes:
        """The memory as JSON. Raises ValueError where a number of it is none."""
        values = {
            "version": VERSION,
            "camera": self.camera,
            "gain": self.gain.as_dict(),
            "arms": self.arms.as_dict(),
            "gate": None if self.gate is None else self.gate.as_dict(),
        }
        return json.dumps(values, allow_nan=False).encode()


def decode(data: bytes, camera: str) -> Memory:
    """The memory of this camera that ``encode`` gave. Raises ValueError that says what is wrong with it."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from error
    if not isinstance(values, Mapping) or "version" not in values:
        raise ValueError("it holds nothing that a camera has learned")
    if values["version"] != VERSION:
        raise ValueError(f"it has version {values['version']!r}, and {VERSION} is read here")
    if values.get("camera") != camera:
        raise ValueError(f"it is of the camera {values.get('camera')!r}")
    gain, arms, gate = (values.get(part) for part in ("gain", "arms", "gate"))
    if not isinstance(gain, Mapping) or not isinstance(arms, Mapping) or not isinstance(gate, Mapping | None):
        raise ValueError("a part of what was learned is missing")  # noqa: TRY004 - of a file, not of an argument
    learned = GainModel.from_dict(gain), LearnedArms.from_dict(arms)
    return Memory(camera, *learned, None if gate is None else KeepMemory.from_dict(gate))
