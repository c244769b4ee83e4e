"""What the stages of one camera share."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from edge_agent.arms import CropArms, Trial
from edge_agent.board import Board
from edge_agent.frame_work import wanted
from edge_agent.gain_lessons import GainLessons
from edge_agent.gate import Gate, Gated
from edge_agent.lessons.taking import Taking
from edge_agent.levers import Levers
from edge_agent.pools import Pools
from edge_agent.region_of_interest import RegionOfInterest
from edge_agent.releases.judging import JudgingSettings
from edge_agent.releases.sights import Sights
from edge_agent.releases.slot import ModelSlot, Staged
from edge_agent.resolve import Phase, Resolver
from edge_agent.reuse import AnswerReuse
from edge_agent.revisions import RecentResults
from edge_agent.router import Router
from edge_agent.settings import CameraSettings
from edge_agent.steer import Steer
from edge_agent.tracking.history import Tracker
from edge_agent.uplink import Uplink
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.frames import Frame, FrameKey
from pipeline.results import CameraState, Origin, Result
from pipeline.timing import Clock, wall_time

_log = logging.getLogger(__name__)
_FAULTS = frozenset(CameraState) - {CameraState.CONNECTING, CameraState.LIVE, CameraState.DARK, CameraState.FINISHED}


class Outlet(Protocol):
    """Where a camera's results and states go."""

    async def result(self, result: Result) -> None: ...

    def record(self, result: Result) -> None: ...

    async def state(self, camera: str, board: Board) -> None: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What all cameras of an agent share. ``settle_margin_s`` before its deadline a frame is settled; of a source that
    is not live at most ``frames_in_flight`` frames are under way at once. ``sure_score`` is what a detection of the
    larger model must reach to count by itself.
    """

    detector: Detector
    uplink: Uplink
    pools: Pools
    outlet: Outlet
    clock: Clock
    epoch: int
    settle_margin_s: float
    frames_in_flight: int
    sure_score: float
    judging: JudgingSettings = field(default_factory=JudgingSettings)
    """How a release is judged."""
    light: Detector | None = None
    """The lighter small model, for cameras whose budgets ask for it."""
    lessons_dir: Path | None = None
    """Where lessons are kept, a folder for each camera; None where nothing is."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A frame for the small model, and where it is to look. ``scene_s`` is its time for sampling and tracking."""

    frame: Frame
    region: RegionOfInterest
    gated: Gated
    scene_s: float


def new_tracker(settings: CameraSettings, *, stills: bool, next_id: int = 1) -> Tracker:
    """The tracker of a camera; among stills nothing is ever too long ago to be corrected."""
    if stills:
        return Tracker(settings.tracker, history_s=float("inf"), next_id=next_id)
    return Tracker(settings.tracker, next_id=next_id)


@dataclass(slots=True, eq=False)
class Context:
    """One camera's memory.

    ``changed`` wakes the output, ``room`` the intake. ``reopened`` says that there is a way to the cloud again, and
    ``left_alone`` is the newest analysed frame if there was none for it. ``trial`` is of a frame whose answer has come,
    which ``trial_possible`` says. ``to_show`` is the one frame whose picture is
    kept until its answer is known. ``patient`` cameras read a file as fast as it goes and would rather wait than do
    without the cloud; ``stills`` are pictures that have nothing to do with one another.
    """

    settings: CameraSettings
    tools: Tools
    slot: ModelSlot
    board: Board
    gate: Gate
    tracker: Tracker
    resolver: Resolver
    patient: bool
    stills: bool
    steer: Steer
    router: Router
    gain_lessons: GainLessons
    arms: CropArms
    sights: Sights
    taking: Taking | None = None
    """What it takes in to learn from; None where it does not learn."""
    reuse: AnswerReuse | None = None
    """What may be said again where nothing looks different; None where that is off."""
    levers: Levers = field(default_factory=Levers)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    reopened: asyncio.Event = field(default_factory=asyncio.Event)
    left_alone: Work | None = None
    trial_possible: asyncio.Event = field(default_factory=asyncio.Event)
    trial: Trial | None = None
    recent: RecentResults = field(default_factory=RecentResults)
    to_show: Frame | None = None
    captured_all: bool = False

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def deadline_ms(self) -> float:
        """How long after capture a frame must be answered."""
        return self.settings.patience_ms if self.patient else self.settings.deadline_ms

    @property
    def whole_frames(self) -> bool:
        """Whether its whole frames may go to a tier; where not to every one, to one that can be asked."""
        privacy = self.settings.privacy
        if not privacy.masks:
            return privacy.whole_frames
        return self.tools.uplink.served(privacy.beyond_device - privacy.masked_only)

    @property
    def remark(self) -> str:
        """What keeps its frames from being analysed in time; empty where nothing does."""
        return self.board.looks.remark(self.deadline_ms, self.tools.settle_margin_s * 1000)

    @property
    def light(self) -> Staged | None:
        """The lighter small model, where it is to stand in for the general one; a model of the camera's own is small
        for good.
        """
        light = self.tools.light
        return None if light is None or not self.levers.light_model or not self.slot.current.general else Staged(light)

    def small_model(self) -> tuple[Detector, str]:
        """The small model that is usually to look now, and its name for the result."""
        staged, light = self.slot.current, self.light
        return (staged.detector, staged.title) if light is None else (light.detector, f"{light.title}+light")

    def offer(self, frame: Frame) -> None:
        """Keep this frame to be shown with its answer, unless another one waits for its own."""
        if self.to_show is None:
            self.to_show = frame

    def try_arm(self, trial: Trial | None) -> None:
        """A trial, if there is one, has become possible."""
        if trial is not None:
            self.trial = trial
            self.trial_possible.set()

    def start_anew(self) -> None:
        """Forget the tracks: what follows does not continue what was before. No number is used again."""
        self.tracker = new_tracker(self.settings, stills=self.stills, next_id=self.tracker.next_id)

    def settle(self, key: FrameKey, origin: Origin, reason: str) -> None:
        """Nothing better will come for this frame: let it go out. The edge answers only where it has looked."""
        pending = self.resolver.get(key)
        if pending is not None and not pending.edge_model and origin not in (Origin.CLOUD, Origin.FUSED):
            origin = Origin.CARRIED
        phase = Phase.CARRIED if origin is Origin.CARRIED else Phase.SETTLED
        now_s = self.tools.clock.now_s()
        if self.resolver.update(key, phase=phase, origin=origin, reason=reason, ready_at_s=now_s):
            self.changed.set()

    async def went(self, state: CameraState, reason: str) -> None:
        """Note and publish the camera's state."""
        if self.board.went(state, reason, wall_time()):
            level = logging.WARNING if state in _FAULTS else logging.INFO
            _log.log(level, "camera %s is %s: %s", self.name, state.value, reason)
            await self.tools.outlet.state(self.name, self.board)

    def wanted(self, found: Detections) -> Detections:
        """The detections of the camera's objects inside its region of interest."""
        return wanted(found, self.settings, self.gate.region)
