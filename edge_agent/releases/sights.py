"""Which model looks at a camera's frame, and which frames others are to look at too."""

import asyncio
from collections.abc import Callable
from functools import partial

from edge_agent.frame_work import look
from edge_agent.pools import Runner
from edge_agent.region_of_interest import RegionOfInterest
from edge_agent.releases.audits import Audit, Sight
from edge_agent.releases.rollout import CameraRollout
from edge_agent.releases.slot import Staged
from edge_agent.settings import CameraSettings
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey
from pipeline.timing import Clock


class Sights:
    """The looks of one camera's models.

    ``wake`` says that somebody is to look aside, or that a frame (``to_ask``, the newest) is to be asked about whole.
    """

    def __init__(self, rollout: CameraRollout, model: Runner, settings: CameraSettings, clock: Clock) -> None:
        self.rollout, self.wake = rollout, asyncio.Event()
        self.to_ask: Audit | None = None
        self._model, self._settings, self._clock = model, settings, clock
        self._newest: Audit | None = None
        self._credit, self._audited_at_s = 0.0, float("-inf")

    async def first(self, frame: Frame, region: RegionOfInterest, light: Staged | None, room_s: float) -> Sight:
        """The look that answers a frame: the candidate's where it is its turn and it sees something in time, else the
        current model's; a camera that is turned down has the ``light`` one look. ``room_s`` is how long others may
        try before the current model must begin.
        """
        rollout, sight = self.rollout, None
        candidate = rollout.slot.serving(use_candidate=light is None and rollout.serves(self._clock.now_s()))
        if candidate is rollout.slot.candidate:
            patience_s = min(room_s / 2, rollout.settings.hang_s)  # the other half is for an unusually slow answer
            sight = await rollout.unproven.look(candidate, self._call(candidate, frame, region), patience_s)
        if sight is None:
            rollout.check()
            sight = await self._current(light, frame, region)
        rollout.answered(sight.staged)
        if light is None and rollout.wanted:
            self._note(frame, region, sight)
        return sight

    async def _current(self, light: Staged | None, frame: Frame, region: RegionOfInterest) -> Sight:
        """The look of the lighter model or of the current one; where that is taken back, of the one that it leaves."""
        while True:
            sight = await self._proven(light or self.rollout.slot.current, frame, region)
            if sight is not None:
                return sight

    async def _proven(self, staged: Staged, frame: Frame, region: RegionOfInterest) -> Sight | None:
        """What a proven model sees; None for a release that raises all the same, which is taken back."""
        started_s = self._clock.now_s()
        try:
            found = await self._model.run(self._call(staged, frame, region))
        except Exception as error:  # whatever a released model raises is its own affair
            if staged.manifest is None:
                raise
            why = f"a look of it raised {type(error).__name__}: {str(error)[:200]}"
            self.rollout.slot.take_back(staged.manifest.entry.sha256, why)
            return None
        return Sight(staged, found, (self._clock.now_s() - started_s) * 1000)

    async def aside(self, audit: Audit, staged: Staged) -> None:
        """Let a model look at a frame that has its answer."""
        rollout, sight = self.rollout, None
        if staged is rollout.slot.candidate:
            look = self._call(staged, audit.frame, audit.region)
            sight = await rollout.unproven.look(staged, look, rollout.settings.hang_s)
            if sight is None:
                rollout.audits.drop(audit.key)
                rollout.check()
        else:
            sight = await self._proven(staged, audit.frame, audit.region)
        if sight is not None:
            rollout.seen(audit, sight)

    def _call(self, staged: Staged, frame: Frame, region: RegionOfInterest) -> Callable[[], Detections]:
        return partial(look, staged.detector, frame, self._settings, region)

    def _note(self, frame: Frame, region: RegionOfInterest, sight: Sight) -> None:
        """A frame has its answer: others may look too, and the larger model may be asked."""
        rollout, settings, now_s = self.rollout, self.rollout.settings, self._clock.now_s()
        self._newest = Audit(frame.key, frame, region, asked=False, sights={sight.staged: sight})
        judging = rollout.judging and not rollout.undecided
        every_s = 60 / settings.audits_per_minute if judging else 3600 / settings.audits_per_hour
        if now_s - self._audited_at_s >= every_s:
            self.to_ask = self._newest
            self.wake.set()
        self._credit = min(1.0, self._credit + settings.shadow_share) if judging else 0.0
        if self._credit >= 1.0 and not len(rollout.audits):
            self._credit = 0.0
            self._open(self._newest)

    def asked_whole(self, key: FrameKey) -> None:
        """The larger model is asked about this frame as a whole anyway: others look at it too."""
        newest = self._newest
        if newest is not None and newest.key == key and self.rollout.wanted:
            newest.asked = True
            if self.to_ask is newest:
                self.to_ask = None  # one frame is to count once
            self.asked(newest)

    def asked(self, audit: Audit) -> None:
        """The larger model is asked for this audit."""
        self._audited_at_s = self._clock.now_s()
        self._open(audit)

    def _open(self, audit: Audit) -> None:
        self.rollout.audits.add(audit)
        self.wake.set()

    def waits_for(self, key: FrameKey) -> bool:
        """Whether an audit needs the larger model's answer to this frame."""
        return key in self.rollout.audits

    def heard(self, key: FrameKey, teacher: Detections | None) -> None:
        """The larger model's answer to a whole frame, with what it is unsure of. None: a lesser one has answered in its
        place, so that another frame is asked about soon.
        """
        if teacher is None:
            self.gave_up(key)
            self._audited_at_s = float("-inf")
            return
        audit = self.rollout.audits.heard(key, teacher)
        if audit is not None:
            self.rollout.heard(audit)

    def gave_up(self, key: FrameKey) -> None:
        """There will be no answer for this frame."""
        self.rollout.audits.drop(key)
