"""What can be set about how releases are judged in the agent, and what a comparison needs of a camera."""

from dataclasses import dataclass, field

from pipeline.policies.drift import DriftSettings
from pipeline.policies.evidence import RolloutSettings


@dataclass(frozen=True, slots=True)
class JudgingSettings:
    """How often a candidate looks, and how often the larger model is asked about a whole frame for it.

    A candidate looks at ``shadow_share`` of the analysed frames, and at those that the larger model sees as a whole.
    While there is one, ``audits_per_minute`` such frames are wanted, ``audits_per_hour`` once it was judged for too
    long and while a camera has a model of its own; whole frames that are asked about anyway count. A look of a
    candidate that takes over ``hang_s`` hangs.
    """

    shadow_share: float = 0.2
    audits_per_minute: float = 20.0
    audits_per_hour: float = 60.0
    hang_s: float = 2.0
    gate: RolloutSettings = field(default_factory=RolloutSettings)
    drift: DriftSettings = field(default_factory=DriftSettings)


@dataclass(frozen=True, slots=True)
class Marks:
    """What a comparison needs of the camera: the scores from which a box is published, and from which the larger model
    counts as sure; what a look may take, ``room_ms``.
    """

    publish_score: float
    sure_score: float
    room_ms: float
