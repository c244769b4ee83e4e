"""What the agent can be told; made by the configuration, one frozen value per part."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edge_agent.candidates import CandidateSettings
from edge_agent.capture.settings import CaptureSettings
from edge_agent.lessons.settings import LessonSettings
from edge_agent.releases.judging import JudgingSettings
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.tracking.tracks import TrackerSettings
from pipeline.errors import ConfigError
from pipeline.mosaic import MosaicSettings
from pipeline.policies.budgets import BudgetSettings
from pipeline.policies.change import ChangeSettings
from pipeline.policies.fallback import WaitSettings
from pipeline.policies.gain import PRIOR, GainModel
from pipeline.policies.near_duplicate import NearDuplicateSettings
from pipeline.policies.offload import OffloadSettings
from pipeline.policies.steering import SteeringSettings
from pipeline.policies.tier_cost import PRESETS, Tier, Weights
from pipeline.policies.tier_offers import Privacy
from pipeline.policies.tiers import TIER_KINDS

Mode = Literal["adaptive", "edge_only", "cloud_only"]
Polygon = tuple[tuple[float, float], ...]
"""Corner points (x, y) in frame pixels, or as shares of the frame where every number is between 0 and 1."""


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """JPEG qualities (1 to 100) and the size of low-quality full frames in pixels."""

    mosaic_quality: int = 60
    frame_quality: int = 50
    frame_width_px: int = 576
    frame_height_px: int = 416


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """One camera. ``name`` is its topic level, ``title`` is for people. ``objects`` empty means every class.
    Releases may be for the cameras of a ``group``.

    At most ``sample_fps`` frames per second are analysed; with adaptive ``sampling`` down to ``sample_fps_least`` of
    them while what is tracked moves slowly.

    ``deadline_ms`` counts from capture. A file that is read as fast as it can be has no time of its own to be late
    in: its frames wait up to ``patience_ms`` for the cloud instead.
    """

    name: str
    capture: CaptureSettings
    title: str = ""
    group: str = ""
    sample_fps: float = 5.0
    sample_fps_least: float = 1.0
    sampling: Literal["adaptive", "fixed"] = "adaptive"
    change_detection: Literal["adaptive", "uniform"] = "adaptive"
    deadline_ms: float = 200.0
    patience_ms: float = 10_000.0
    weight: float = 1.0
    mode: Mode = "adaptive"
    roi: Polygon = ()
    masks: tuple[Polygon, ...] = ()
    objects: frozenset[str] = frozenset()
    publish: Literal["analysed", "all"] = "analysed"
    revisions: bool = False
    change: ChangeSettings = field(default_factory=ChangeSettings)
    tracker: TrackerSettings = field(default_factory=TrackerSettings)
    candidates: CandidateSettings = field(default_factory=CandidateSettings)
    offload: OffloadSettings = field(default_factory=OffloadSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    mosaic: MosaicSettings = field(default_factory=MosaicSettings)
    images: ImageSettings = field(default_factory=ImageSettings)
    wait: WaitSettings = field(default_factory=WaitSettings)
    steering: SteeringSettings = field(default_factory=SteeringSettings)
    route: Literal["auto", "edge"] = "auto"
    gain: GainModel = PRIOR
    lessons: LessonSettings = field(default_factory=LessonSettings)
    privacy: Privacy = field(default_factory=Privacy)
    reuse: NearDuplicateSettings = field(default_factory=NearDuplicateSettings)


@dataclass(frozen=True, slots=True)
class UplinkSettings:
    """The way to the workers. ``uplink_kbps`` None is no limit; ``in_flight`` requests per camera and target at most.

    Workers of ``tiers`` are asked for ``model``, those on site for ``edge_model`` where one is named. Where they are
    of more than one target, ``choice`` and ``weights`` say who is asked, and ``two_stage`` whether a quick answer and a
    better one after it may both be asked for. ``edge_shortfall`` is the part of the F1 of ``model`` that the answers of
    ``edge_model`` lack. Raises ConfigError.

    ``min_score`` is what the larger model must reach for a detection; from ``support_score`` on it supports one of the
    small model's, so that their mean counts. ``late_s`` is how long a late answer is still of use. No more than
    ``bandwidth_share`` of what the link is estimated to carry is used (0: no such limit).
    """

    tiers: frozenset[Tier] = frozenset({Tier.EDGE, Tier.CLOUD})
    model: str = "nanodet-g"
    edge_model: str | None = None
    choice: str = "weighted"
    weights: Weights = PRESETS["balanced"]
    two_stage: bool = True
    edge_shortfall: float = 0.02
    uplink_kbps: float | None = None
    burst_s: float = 2.0
    in_flight: int = 2
    min_score: float = 0.5
    support_score: float = 0.25
    late_s: float = 2.0
    misses_to_open: int = 3
    probe_every_s: float = 1.0
    bandwidth_share: float = 0.8

    def __post_init__(self) -> None:
        if not self.tiers or Tier.DEVICE in self.tiers:
            named = ", ".join(sorted(self.tiers)) or "empty"
            raise ConfigError(f"uplink: tiers is {named}; name edge, cloud or both, the agent itself is the device")
        if self.choice not in TIER_KINDS:
            raise ConfigError(f"uplink: choice is {self.choice!r}; choose one of {', '.join(TIER_KINDS)}")

    def model_of(self, tier: Tier) -> str:
        """The model that workers of a tier are asked for."""
        return self.edge_model if tier is Tier.EDGE and self.edge_model is not None else self.model

    @property
    def asked_score(self) -> float:
        """The least score of a detection that is of use."""
        return min(self.support_score, self.min_score)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The whole agent. ``settle_margin_ms`` before the deadline an answer is settled with what is there."""

    agent: str
    cameras: tuple[CameraSettings, ...]
    uplink: UplinkSettings = field(default_factory=UplinkSettings)
    releases: ReleaseSettings = field(default_factory=ReleaseSettings)
    settle_margin_ms: float = 20.0
    state_dir: Path | None = None
    """Where what the cameras have learned is kept; None keeps nothing."""
    rollout: JudgingSettings = field(default_factory=JudgingSettings)
    frames_in_flight: int = 8
    """For sources that are not live: how many frames may be under way at once."""
