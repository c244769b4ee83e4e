"""What the stages of one camera share."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Protocol

from edge_agent.board import Board
from edge_agent.frame_work import wanted
from edge_agent.gate import Gate, Gated
from edge_agent.pools import Pools
from edge_agent.resolve import Phase, Resolver
from edge_agent.settings import CameraSettings
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
    is not live at most ``frames_in_flight`` frames are under way at once.
    """

    detector: Detector
    uplink: Uplink
    pools: Pools
    outlet: Outlet
    clock: Clock
    epoch: int
    settle_margin_s: float
    frames_in_flight: int


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A frame for the small model. ``scene_s`` is its time for sampling and tracking."""

    frame: Frame
    gated: Gated
    scene_s: float


@dataclass(slots=True, eq=False)
class Context:
    """One camera's memory. ``changed`` wakes the resolving stage, ``room`` the capturing one; ``newest`` is the frame
    analysed last, kept for whoever wants to see it; ``patient`` cameras read a file as fast as it goes and would rather
    wait than do without the cloud.
    """

    settings: CameraSettings
    tools: Tools
    board: Board
    gate: Gate
    tracker: Tracker
    resolver: Resolver
    patient: bool
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    newest: Frame | None = None
    captured_all: bool = False

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def deadline_ms(self) -> float:
        """How long after capture a frame must be answered."""
        return self.settings.patience_ms if self.patient else self.settings.deadline_ms

    def settle(self, key: FrameKey, origin: Origin, reason: str) -> None:
        """Nothing better will come for this frame: let it go out."""
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
