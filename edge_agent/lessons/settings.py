"""What a camera keeps to learn from, and how it comes by it."""

from dataclasses import dataclass, field
from typing import Literal

from edge_agent.lessons.labels import CleaningSettings

Privacy = Literal["site", "cloud"]
"""``site``: lessons never leave the machine that took them. ``cloud``: they may."""


@dataclass(frozen=True, slots=True)
class LessonSettings:
    """The lessons of one camera. Nothing is kept unless ``enabled``.

    A lesson's picture fits into ``picture_width_px`` x ``picture_height_px``. Two lessons are at least
    ``least_apart_s`` of scene time apart. Where the way up is idle, at most ``most_per_minute`` whole frames are asked
    about for lessons alone, in no more than ``uplink_share`` of the budget. What is kept has at most ``most_bytes``.
    """

    enabled: bool = False
    privacy: Privacy = "site"
    picture_width_px: int = 320
    picture_height_px: int = 256
    least_apart_s: float = 0.5
    most_per_minute: float = 30.0
    uplink_share: float = 0.25
    most_bytes: int = 256_000_000
    cleaning: CleaningSettings = field(default_factory=CleaningSettings)
